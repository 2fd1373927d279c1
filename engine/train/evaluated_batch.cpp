#include "engine/train/detail/evaluated_batch.hpp"

namespace keelson::detail {

EvaluatedBatch::EvaluatedBatch(Device& device, std::size_t prediction_bytes) : queue_(device.make_queue()) {
  if (prediction_bytes > 0) predictions = device.allocate_host(prediction_bytes, "predictions on the host");
}

void EvaluatedBatch::send(std::span<const std::int64_t> samples, std::int64_t at, const void* target,
                          std::size_t target_bytes, const Tensor& prediction) {
  step = at;
  count = static_cast<std::int64_t>(samples.size());
  indices.assign(samples.begin(), samples.end());
  if (!predictions) return;
  targets.assign(static_cast<const char*>(target), static_cast<const char*>(target) + target_bytes);
  queue_->wait_for_device();
  queue_->copy_to_host(predictions.get(), prediction.raw(), prediction.bytes());
  queue_->device_waits();
}

}  // namespace keelson::detail
