#include "engine/tune/wall_clock_timer.hpp"

#include <algorithm>
#include <chrono>

namespace keelson {

namespace {

/// Work that takes longer, in seconds, counts from its first run on: what the run sets up is small beside it. It runs
/// twice. Work that takes longer than very_long_work runs once.
constexpr double long_work = 0.03, very_long_work = 0.1;
constexpr int rounds_of_long_work = 2, rounds_of_work = 4;
/// A candidate is dropped that takes so many times as long as the fastest one: after the first run of long work, and
/// after one and two runs that count of other work.
constexpr double far_behind[rounds_of_work - 1] = {1.35, 1.5, 1.2};

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
    if (t.is_long()) return round >= rounds_of_long_work || t.first > far_behind[0] * least;
    return round > 1 && t.best > far_behind[round - 1] * least;
  };
  for (int round = 0; round < rounds_of_work; ++round)  // in turns, so that a clock that changes meets all of them
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
