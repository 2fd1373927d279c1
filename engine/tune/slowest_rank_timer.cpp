#include "engine/tune/slowest_rank_timer.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/tune/wall_clock_timer.hpp"

namespace keelson {

namespace {

constexpr int least_runs = 3, most_runs = 101;
/// A candidate is dropped that takes so many times as long as another one: after its first run, and after two rounds.
constexpr double hopeless = 4, beaten = 1.25;
/// But what is done in so many seconds is measured in two rounds: a core that has slept is slow at first.
constexpr double quick = 1e-3;

}  // namespace

SlowestRankTimer::SlowestRankTimer(Group group, int rounds, double seconds)
    : group_(std::move(group)), rounds_(rounds), seconds_(seconds) {}

std::vector<double> SlowestRankTimer::time(std::size_t count, const RunCandidate& run) {
  std::vector<double> seconds(count, does_not_run);
  double best = does_not_run;
  for (int round = 0; round < rounds_; ++round)
    for (std::size_t i = 0; i < count; ++i) {
      const bool first_rounds = round == 0 || (round == 1 && seconds[i] <= quick);
      if (!first_rounds && seconds[i] > (round == 1 ? hopeless : beaten) * best) continue;
      seconds[i] = std::min(seconds[i], median(best, [&] { KEELSON_EXPECT(run(i)); }));
      best = std::min(best, seconds[i]);
    }
  return seconds;
}

/// Of the first run alone, if that is so much slower than `best`.
double SlowestRankTimer::median(double best, const std::function<void()>& work) {
  time_runs(1, work);  // first use: connections, pages
  const double first = time_runs(1, work)[0];
  if (first > quick && first > hopeless * best) return first;
  const int runs = std::clamp(static_cast<int>(seconds_ / std::max(first, 1e-9)), least_runs, most_runs);
  auto seconds = time_runs(runs, work);
  std::nth_element(seconds.begin(), seconds.begin() + runs / 2, seconds.end());
  return seconds[static_cast<std::size_t>(runs / 2)];
}

std::vector<double> SlowestRankTimer::time_runs(int runs, const std::function<void()>& work) {
  std::vector<double> seconds(static_cast<std::size_t>(runs));
  for (double& s : seconds) {
    group_.barrier();
    const double start = steady_seconds();
    work();
    s = steady_seconds() - start;
  }
  group_.max(seconds.data(), seconds.size());
  return seconds;
}

}  // namespace keelson
