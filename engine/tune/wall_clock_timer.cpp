#include "engine/tune/wall_clock_timer.hpp"

#include <algorithm>
#include <chrono>

namespace keelson {

namespace {

/// Work that takes longer, in seconds, counts from its first run on: what the run sets up is small beside it. It runs
/// twice. Work that takes longer than very_long_work runs once.
constexpr double long_work = 0.02, very_long_work = 0.1;
/// Work that takes less time, in seconds, is what other programs disturb most, and costs little to repeat.
constexpr double short_work = 0.001;
constexpr int rounds_of_long_work = 2, rounds_of_work = 4, rounds_of_short_work = 16;
/// A candidate is dropped that takes so many times as long as the fastest one: after the first run of long work, and
/// after one run that counts and after more runs of other work.
constexpr double far_behind_at_first = 1.35, far_behind_after_one = 1.5, far_behind = 1.2;

}  // namespace

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

WallClockTimer::WallClockTimer(std::function<double()> clock) : clock_(clock ? std::move(clock) : steady_seconds) {}

std::vector<double> WallClockTimer::time(std::size_t count, const RunCandidate& run) {
  struct Trial {
    double first = does_not_run, best = does_not_run;
    bool is_long() const { return first > long_work; }
  };
  std::vector<Trial> trials(count);
  double least = does_not_run;
  const auto is_decided = [&](const Trial& t, int round) {
    if (t.first == does_not_run || t.first > very_long_work) return true;
    if (t.is_long()) return round >= rounds_of_long_work || t.first > far_behind_at_first * least;
    if (round >= rounds_of_work && t.best > short_work) return true;
    return round > 1 && t.best > (round == 2 ? far_behind_after_one : far_behind) * least;
  };
  // In turns, so that a clock that changes meets all of them.
  for (int round = 0; round < rounds_of_short_work; ++round)
    for (std::size_t i = 0; i < count; ++i) {
      Trial& t = trials[i];
      if (round > 0 && is_decided(t, round)) continue;
      const double start = clock_();
      const double seconds = run(i) ? clock_() - start : does_not_run;
      if (round == 0) t.first = seconds;
      if (round == 0 && !t.is_long()) continue;  // the run also sets things up
      t.best = std::min(t.best, seconds);
      least = std::min(least, t.best);
    }
  std::vector<double> best;
  for (const Trial& t : trials) best.push_back(t.best);
  return best;
}

}  // namespace keelson
