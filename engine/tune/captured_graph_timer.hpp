#pragma once

#include <memory>
#include <optional>

#include "engine/tune/trial_timer.hpp"

namespace keelson {

/// Work that a device has captured.
struct CapturedWork {
  std::function<void()> launch;  ///< queues all of the work
  std::size_t kernels = 0;       ///< in the work; copies and fills do not count
};

/// What CapturedGraphTimer needs of a device.
class CapturingDevice {
 public:
  virtual ~CapturingDevice() = default;
  /// Captures what `work` queues instead of running it. Throws Error if a part of the work cannot be captured, and
  /// what `work` throws; the device is then as before.
  virtual CapturedWork capture(const std::function<void()>& work) = 0;
  /// Runs what `work` queues, and returns when it has ended: the device's time for it, in seconds. Throws Error if
  /// the device broke down.
  virtual double time(const std::function<void()>& work) = 0;
};

/// Measures work that is queued on a device. Runs are captured, several in one graph, as the steps of a training are:
/// then the time to launch a kernel does not count.
///
/// A candidate does not run if its run returns false, if its work cannot be captured, or if it queues less than one
/// kernel: then the library refused without a word. What a run throws outside of a capture passes through. The first
/// run of a candidate may load code and set things up, and does not count.
class CapturedGraphTimer final : public TrialTimer {
 public:
  /// Captures on `device`.
  explicit CapturedGraphTimer(std::unique_ptr<CapturingDevice> device) : device_(std::move(device)) {}
  std::vector<double> time(std::size_t count, const RunCandidate& run) override;
  bool can_run(std::size_t candidate, const RunCandidate& run) override;

 private:
  std::optional<CapturedWork> try_to_capture(std::size_t candidate, int runs, const RunCandidate& run);

  std::unique_ptr<CapturingDevice> device_;
};

}  // namespace keelson
