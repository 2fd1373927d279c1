#pragma once

#include <memory>
#include <vector>

#include "engine/data/loader.hpp"
#include "engine/ops/device.hpp"

namespace keelson::detail {

/// What is known on the host of a batch that has been handed to the device: what metrics want of it, and the network's
/// predictions when they arrive.
class EvaluatedBatch {
 public:
  /// `prediction_bytes` of a batch; 0: nobody reads predictions.
  EvaluatedBatch(Device& device, std::size_t prediction_bytes);
  ~EvaluatedBatch() { queue_->wait(); }
  EvaluatedBatch(const EvaluatedBatch&) = delete;

  /// Keeps the batch's facts, and `target`, the bytes of its target field, if anybody reads predictions. Queues the
  /// copy of `prediction` to the host behind the work queued so far; work that is queued from now on may overwrite it.
  void send(const Batch& batch, std::int64_t step, const void* target, std::size_t target_bytes,
            const Tensor& prediction);
  void wait() { queue_->wait(); }  ///< until the predictions are here

  std::int64_t step = 0, count = 0;   ///< of the epoch; samples
  std::vector<std::int64_t> indices;  ///< (count)
  std::vector<char> targets;
  std::shared_ptr<void> predictions;  ///< null: nobody reads them

 private:
  std::unique_ptr<Queue> queue_;
};

}  // namespace keelson::detail
