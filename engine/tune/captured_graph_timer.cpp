#include "engine/tune/captured_graph_timer.hpp"

#include <algorithm>

#include "engine/base/error.hpp"

namespace keelson {

namespace {

constexpr int rounds = 3, launches = 5;
constexpr double seconds_of_launch = 0.5e-3;
constexpr int most_runs = 20;
/// A candidate is dropped that takes so many times as long as another one, and more than a millisecond.
constexpr double hopeless = 10, short_run = 1e-3;

/// A candidate that runs, captured so many times over that launching costs nothing.
struct Trial {
  std::size_t candidate;
  CapturedWork work;
  int runs;
};

}  // namespace

std::optional<CapturedWork> CapturedGraphTimer::try_to_capture(std::size_t candidate, int runs,
                                                               const RunCandidate& run) {
  try {
    bool all = true;
    auto work = device_->capture([&] {
      for (int r = 0; r < runs && all; ++r) all = run(candidate);
    });
    if (all && work.kernels >= static_cast<std::size_t>(runs)) return work;
  } catch (const Error&) {
    // Nor could a step that uses it be captured.
  }
  return {};
}

bool CapturedGraphTimer::can_run(std::size_t candidate, const RunCandidate& run) {
  return run(candidate) && try_to_capture(candidate, 1, run);
}

std::vector<double> CapturedGraphTimer::time(std::size_t count, const RunCandidate& run) {
  std::vector<Trial> trials;
  double least = does_not_run;
  for (std::size_t i = 0; i < count; ++i) {
    if (!run(i)) continue;
    bool ran = true;
    const double once = device_->time([&] { ran = run(i); });
    if (!ran || once > std::max(short_run, hopeless * least)) continue;
    const int runs = std::clamp(static_cast<int>(seconds_of_launch / std::max(once, 1e-7)), 1, most_runs);
    if (auto work = try_to_capture(i, runs, run)) {
      trials.push_back({i, std::move(*work), runs});
      least = std::min(least, once);
    }
  }
  std::vector<double> seconds(count, does_not_run);
  // In turns, so that a clock that rises or falls meets all of them.
  for (int round = 0; round < rounds; ++round)
    for (const Trial& t : trials) {
      double times[launches];
      for (double& s : times) s = device_->time(t.work.launch);
      std::sort(times, times + launches);
      seconds[t.candidate] = std::min(seconds[t.candidate], times[launches / 2] / t.runs);
    }
  return seconds;
}

}  // namespace keelson
