#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/ops/device.hpp"
#include "engine/tensor/tensor.hpp"

namespace keelson::detail {

/// What is known on the host of samples that have been handed to the device together: what metrics want of them, and
/// the network's predictions when they arrive.
class EvaluatedBatch {
 public:
  /// `prediction_bytes` of a batch; 0: nobody reads predictions.
  EvaluatedBatch(Device& device, std::size_t prediction_bytes);
  ~EvaluatedBatch() { queue_->wait(); }
  EvaluatedBatch(const EvaluatedBatch&) = delete;

  /// Keeps the samples' numbers in the data set, and `target`, the bytes of their target field, if anybody reads
  /// predictions. Queues the copy of `prediction` to the host behind the work queued so far; work that is queued from
  /// now on may overwrite it.
  void send(std::span<const std::int64_t> samples, std::int64_t step, const void* target, std::size_t target_bytes,
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
