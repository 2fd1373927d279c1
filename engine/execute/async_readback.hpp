#pragma once

#include "engine/base/communicator.hpp"
#include "engine/execute/executor.hpp"

namespace keelson {

/// Brings the loss of a step and the scale of its gradients to the host while the device goes on.
class AsyncReadback {
 public:
  explicit AsyncReadback(Device& device);
  ~AsyncReadback();
  AsyncReadback(const AsyncReadback&) = delete;
  /// Queues the copies, behind all work queued so far. `loss_scale` holds one LossScale, or is empty.
  void send(const Tensor& loss, const Tensor& loss_scale);
  /// The oldest one sent. While it waits, `communicator` may report which ranks keep it waiting.
  Executor::StepResult take(Communicator* communicator);

 private:
  struct Readback {
    std::shared_ptr<void> loss, loss_scale;
    std::unique_ptr<Queue> queue;
  };
  static constexpr std::size_t slots = 2;
  Readback slots_[slots];
  std::size_t sent_ = 0, taken_ = 0;
};

}  // namespace keelson
