#pragma once

#include "engine/base/communicator.hpp"
#include "engine/execute/executor.hpp"

namespace keelson {

/// Copies the loss of a step and its loss scale to the host while the device works on the next step. At most two copies
/// may be in flight.
class AsyncReadback {
 public:
  /// Allocates the queues and the memory on the host. Throws Error if the host has no room.
  /// `samples`: number of the losses of samples; 0: these are not copied.
  AsyncReadback(Device& device, std::int64_t samples);
  ~AsyncReadback();
  AsyncReadback(const AsyncReadback&) = delete;
  /// Queues the copies after all work that is queued so far. `loss`: one f64. `loss_scale`: one ops::LossScale, or
  /// empty. `sample_losses`: so many f32; null for 0 samples. Throws Error if two copies are already in flight.
  void send(const Tensor& loss, const Tensor& loss_scale, const void* sample_losses);
  /// Waits for the oldest copies and returns their values. During the wait, collectives of `communicator` advance, and
  /// its watchdog reports ranks that do not answer; null: this rank is alone.
  Executor::StepResult take(Communicator* communicator);

 private:
  struct Readback {
    std::shared_ptr<void> loss, loss_scale, sample_losses;
    std::unique_ptr<Queue> queue;
  };
  static constexpr std::size_t most = 2;  ///< copies under way
  std::size_t samples_;
  Readback readbacks_[most];
  std::size_t sent_ = 0, taken_ = 0;
};

}  // namespace keelson
