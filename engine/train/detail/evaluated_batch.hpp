#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/ops/device.hpp"
#include "engine/tensor/tensor.hpp"

namespace keelson::detail {

/// Samples that the device evaluates together, as the host knows them: what metrics need of the samples, and the
/// network's predictions when they have arrived.
class EvaluatedBatch {
 public:
  /// `prediction_bytes`: of a batch; 0: no metric reads predictions.
  EvaluatedBatch(Device& device, std::size_t prediction_bytes);
  ~EvaluatedBatch() { queue_->wait(); }
  EvaluatedBatch(const EvaluatedBatch&) = delete;

  /// Keeps the samples' numbers in the data set and, if a metric reads predictions, the bytes of their target field.
  /// Queues the copy of `prediction` to the host behind the work queued so far. Work that is queued from now on may
  /// overwrite `prediction`.
  void send(std::span<const std::int64_t> samples, std::int64_t step, const void* target, std::size_t target_bytes,
            const Tensor& prediction);
  void wait() { queue_->wait(); }  ///< until the predictions are here

  std::int64_t step = 0, count = 0;   ///< of the epoch; samples
  std::vector<std::int64_t> indices;  ///< (count)
  std::vector<char> targets;
  std::shared_ptr<void> predictions;  ///< null: no metric reads them

 private:
  std::unique_ptr<Queue> queue_;
};

}  // namespace keelson::detail
