#include "backends/detail/tuner.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <limits>

#include "engine/base/error.hpp"
#include "engine/base/verbose.hpp"

namespace keelson::backends {

namespace {

/// Of the rules by which choices are made, part of the file's name. Raise the number when choices made by earlier rules
/// must not be used: those of version 1 may be algorithms that were measured without running.
constexpr int rules_version = 2;

constexpr int rounds = 3, replays = 5;
constexpr double milliseconds_of_replay = 0.5;
constexpr int most_runs = 20;
/// What takes so many times as long as another one, and more than a millisecond, is not looked at further.
constexpr double hopeless = 10;

/// A candidate that runs, recorded so many times over that launching costs nothing: a step is launched as one, too.
struct Trial {
  std::size_t candidate;
  Recording recording;
  int runs;
  double milliseconds = std::numeric_limits<double>::max();  ///< of one run: the least of the rounds' medians
};

bool attempt(std::size_t candidate, const std::function<bool(std::size_t)>& run) {
  try {
    return run(candidate);
  } catch (const Error&) {
    return false;  // a device that is broken for good tells the next call, too, which is not tried
  }
}

}  // namespace

Tuner::Tuner(std::unique_ptr<TrialDevice> device, const std::string& name)
    : device_(std::move(device)),
      cache_(choice_file(fmt::format("{}-v{}", name, rules_version))),
      off_(tuning_is_off()) {}

std::optional<std::size_t> Tuner::choose(const std::string& key, const std::vector<std::string>& candidates,
                                         const std::function<bool(std::size_t)>& run) {
  const std::scoped_lock lock(mutex_);
  if (off_) {
    for (std::size_t i = 0; i < candidates.size(); ++i)
      if (attempt(i, run) && try_to_record(i, 1, run)) return i;
    return {};
  }
  struct NoneRuns {};  // the cache keeps nothing of what is thrown
  const auto place = [&](const std::string& name) { return std::find(candidates.begin(), candidates.end(), name); };
  try {
    const auto chosen = cache_.choose(
        key, [&](const std::string& name) { return place(name) != candidates.end(); },
        [&] {
          const auto best = fastest(key, candidates, run);
          if (!best) throw NoneRuns();
          return candidates[*best];
        });
    return static_cast<std::size_t>(place(chosen) - candidates.begin());
  } catch (const NoneRuns&) {
    return {};
  }
}

std::optional<Recording> Tuner::try_to_record(std::size_t candidate, int runs,
                                              const std::function<bool(std::size_t)>& run) {
  try {
    bool all = true;
    auto recording = device_->record([&] {
      for (int r = 0; r < runs && all; ++r) all = attempt(candidate, run);
    });
    if (all && recording.kernels >= static_cast<std::size_t>(runs)) return recording;
  } catch (const Error&) {
    // Nor could a step that uses it be recorded.
  }
  return {};
}

std::optional<std::size_t> Tuner::fastest(const std::string& key, const std::vector<std::string>& candidates,
                                          const std::function<bool(std::size_t)>& run) {
  std::vector<Trial> trials;
  double least = std::numeric_limits<double>::max();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (!attempt(i, run)) continue;  // this time it may load code and set things up
    bool ran = true;
    const double once = device_->time([&] { ran = attempt(i, run); });
    if (!ran || once > std::max(1.0, hopeless * least)) continue;
    const int runs = std::clamp(static_cast<int>(milliseconds_of_replay / std::max(once, 1e-4)), 1, most_runs);
    if (auto recording = try_to_record(i, runs, run)) {
      trials.push_back({i, std::move(*recording), runs});
      least = std::min(least, once);
    }
  }
  if (trials.empty()) return {};
  // In turns, so that a clock that rises or falls meets all of them.
  for (int round = 0; round < rounds; ++round)
    for (auto& t : trials) {
      double times[replays];
      for (double& ms : times) ms = device_->time([&] { t.recording.graph->launch(); });
      std::sort(times, times + replays);
      t.milliseconds = std::min(t.milliseconds, times[replays / 2] / t.runs);
    }
  const auto best = std::min_element(trials.begin(), trials.end(),
                                     [](const Trial& a, const Trial& b) { return a.milliseconds < b.milliseconds; });
  if (verbose())
    fmt::print(stderr, "keelson: {}: {} of {} algorithms run, {} is the fastest: {:.4f} ms, the first one's {:.4f}\n",
               key, trials.size(), candidates.size(), candidates[best->candidate], best->milliseconds,
               trials.front().milliseconds);
  return best->candidate;
}

}  // namespace keelson::backends
