#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"

namespace keelson {

/// Ends training on all ranks after the same step when any rank votes for the end: after a signal, after
/// Trainer::stop(), or when the time left is just enough for a step and a checkpoint. The vote runs beside the step's
/// own work, so that ranks do not wait for it.
class StopVote {
 public:
  /// The ranks' decision. none: training goes on. failed: a rank cannot go on, and will throw.
  enum class Reason : int { none = 0, time_limit = 1, interrupted = 2, failed = 3, stopped = 4 };

  /// `limit`: seconds from `start` on that training may take; 0: no limit. `interrupted`: called once per step, true
  /// votes for the end; may be empty. `communicator` null: this rank alone.
  StopVote(Communicator* communicator, std::chrono::steady_clock::time_point start, double limit,
           std::function<bool()> interrupted);

  /// From now on the ranks of another group vote. What is known of times stays. `slack`: end() gives the decision of so
  /// many steps before, so that ranks need not wait for those that are that far behind. Votes in flight are dropped.
  void regroup(Communicator* communicator, std::size_t slack = 0);
  /// Drops all votes, before their group goes. regroup() comes before the next vote.
  void drop() { votes_.clear(); }
  /// Returns when no vote is in flight. end() still has their decisions. Collective.
  void wait();
  /// Before the step: casts this rank's vote. `extra`: seconds that work after the step will take (a validation).
  /// `failed`: this rank cannot go on. `stopped`: its caller wants the end.
  void begin(double extra = 0, bool failed = false, bool stopped = false);
  Reason end();  ///< after the step: the ranks' decision, the same on all; none for steps before the first

  /// Tells how many seconds a step took. The time of the next step is estimated from the slowest of the recent steps.
  void step_took(double seconds) { step_seconds_ = std::max(0.8 * step_seconds_, seconds); }
  /// Tells how many seconds a checkpoint took. The longest time, at least 1 s, has to fit into the time left besides a
  /// step.
  void reserve(double seconds) { reserve_ = std::max(reserve_, seconds); }

 private:
  double elapsed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

  std::chrono::steady_clock::time_point start_;
  double limit_;
  std::function<bool()> interrupted_;
  double step_seconds_ = 0, reserve_ = 1;
  struct Vote {
    double counts[4] = {0, 0, 0, 0};  ///< ranks out of time, interrupted, failed, stopped
    std::unique_ptr<Collective> sum;
  };
  std::vector<Vote> votes_;  ///< of the last steps
  std::size_t begun_ = 0;    ///< votes
};

}  // namespace keelson
