#include "engine/tune/wall_clock_timer.hpp"

#include <algorithm>
#include <chrono>

namespace keelson {

namespace {

constexpr int rounds = 4;
/// A candidate is dropped that takes so many times as long as the fastest one: after its first run, which also sets
/// things up, and after the two runs that follow.
constexpr double far_behind[rounds - 1] = {4, 1.5, 1.2};
/// But after the first run only if the run has taken so many seconds: what sets things up may take longer than the
/// work.
constexpr double long_first_run = 0.03;
/// Work that takes longer, in seconds, runs once: noise is small beside it.
constexpr double long_work = 1;

}  // namespace

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

WallClockTimer::WallClockTimer(std::function<double()> clock) : clock_(clock ? std::move(clock) : steady_seconds) {}

std::vector<double> WallClockTimer::time(std::size_t count, const RunCandidate& run) {
  std::vector<double> first(count, does_not_run), best(count, does_not_run);
  const auto timed = [&](std::size_t i) {
    const double start = clock_();
    return run(i) ? clock_() - start : does_not_run;
  };
  for (std::size_t i = 0; i < count; ++i) {
    first[i] = timed(i);
    if (first[i] > long_work) best[i] = first[i];
  }
  double least_first = does_not_run, least = does_not_run;
  for (std::size_t i = 0; i < count; ++i) {
    least_first = std::min(least_first, first[i]);
    least = std::min(least, best[i]);
  }
  const auto is_decided = [&](std::size_t i, int round) {
    if (first[i] > long_work) return true;
    if (round == 1) return first[i] > long_first_run && first[i] > far_behind[0] * least_first;
    return best[i] > far_behind[round - 1] * least;
  };
  for (int round = 1; round < rounds; ++round)  // in turns, so that a clock that changes meets all of them
    for (std::size_t i = 0; i < count; ++i) {
      if (is_decided(i, round)) continue;
      best[i] = std::min(best[i], timed(i));
      least = std::min(least, best[i]);
    }
  for (std::size_t i = 0; i < count; ++i)
    if (best[i] == does_not_run) best[i] = first[i];  // dropped after the first run
  return best;
}

}  // namespace keelson
