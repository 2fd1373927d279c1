#pragma once

#include "engine/tune/trial_timer.hpp"

namespace keelson {

/// Measures work that ranks do together, by wall clock: all ranks begin a run at the same time, and the time of the
/// slowest rank counts. time() is collective, and its result is the same on all ranks.
class SlowestRankTimer final : public TrialTimer {
 public:
  /// What the timer needs of a group of ranks.
  struct Group {
    std::function<void()> barrier;                               ///< returns when all ranks have called it
    std::function<void(double* values, std::size_t count)> max;  ///< each value becomes the largest of all ranks
  };
  /// In each of `rounds` each candidate runs for about `seconds`, and the median counts; of the rounds the least one.
  SlowestRankTimer(Group group, int rounds, double seconds);
  std::vector<double> time(std::size_t count, const RunCandidate& run) override;

 private:
  std::vector<double> time_runs(int runs, const std::function<void()>& work);
  double median(double best, const std::function<void()>& work);

  Group group_;
  int rounds_;
  double seconds_;
};

}  // namespace keelson
