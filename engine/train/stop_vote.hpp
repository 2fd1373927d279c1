#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "engine/base/communicator.hpp"

namespace keelson {

/// Ends training on all ranks after the same step when any of them wishes so: after a signal, or when the time left is
/// what a step and a checkpoint need. The ranks vote behind the step's own work, so that asking costs no waiting.
class StopVote {
 public:
  enum class Reason : int { none = 0, time_limit = 1, interrupted = 2 };

  /// `limit` seconds from `start` on; 0: none. `interrupted` is asked once per step; may be empty. `communicator` null:
  /// alone.
  StopVote(Communicator* communicator, std::chrono::steady_clock::time_point start, double limit,
           std::function<bool()> interrupted);

  /// Before the step: casts this rank's vote. `extra`: seconds of what follows the step.
  void begin(double extra = 0);
  Reason end();  ///< after the step: the ranks' decision, the same on all

  void step_took(double seconds) { step_seconds_ = std::max(0.8 * step_seconds_, seconds); }
  /// What must fit into the time left besides a step; grows with the longest checkpoint seen.
  void reserve(double seconds) { reserve_ = std::max(reserve_, seconds); }

 private:
  double elapsed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

  std::chrono::steady_clock::time_point start_;
  double limit_;
  std::function<bool()> interrupted_;
  double step_seconds_ = 0, reserve_ = 1;
  double votes_[2] = {0, 0};  ///< ranks out of time, ranks interrupted
  std::unique_ptr<Collective> sum_;
};

}  // namespace keelson
