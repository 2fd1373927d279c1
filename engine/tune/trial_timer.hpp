#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

namespace keelson {

/// Runs the candidate of that number once, or queues its work if the device works asynchronously. False: the
/// candidate does not run on this device.
using RunCandidate = std::function<bool(std::size_t)>;

/// Measures how long the candidates of a choice take.
class TrialTimer {
 public:
  /// The time of a candidate that does not run.
  static constexpr double does_not_run = std::numeric_limits<double>::infinity();

  virtual ~TrialTimer() = default;
  /// Seconds that one run takes, for each of `count` candidates. A candidate that is far slower than another one may be
  /// measured less often. Exceptions of `run` pass through unless the timer says otherwise.
  virtual std::vector<double> time(std::size_t count, const RunCandidate& run) = 0;
  /// Whether a candidate can be taken without a measurement. The default takes each candidate, and does not run it.
  virtual bool can_run(std::size_t, const RunCandidate&) { return true; }
};

}  // namespace keelson
