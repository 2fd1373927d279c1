#pragma once

#include "engine/tune/trial_timer.hpp"

namespace keelson {

/// Measures work of the host, which has ended when a run returns: candidates run in turns, and the least time of each
/// counts. A candidate that has fallen far behind runs no more, and the longer the work is the less often it runs.
class WallClockTimer final : public TrialTimer {
 public:
  /// `clock` gives seconds; empty: the system's steady clock.
  explicit WallClockTimer(std::function<double()> clock = {});
  std::vector<double> time(std::size_t count, const RunCandidate& run) override;

 private:
  std::function<double()> clock_;
};

/// The system's steady clock, in seconds.
double steady_seconds();

}  // namespace keelson
