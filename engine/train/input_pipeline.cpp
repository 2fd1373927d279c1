#include "engine/train/input_pipeline.hpp"

#include <algorithm>
#include <cstring>

namespace keelson {
namespace {

/// src (N, positions, channels) -> dst (N, channels, positions), in tiles that stay in the nearest cache.
void turn_to_plain(const float* src, float* dst, std::int64_t samples, std::int64_t channels, std::int64_t positions) {
  constexpr std::int64_t tile = 512;
  for (std::int64_t n = 0; n < samples; ++n, src += channels * positions, dst += channels * positions)
    for (std::int64_t from = 0; from < positions; from += tile) {
      const auto to = std::min(positions, from + tile);
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t p = from; p < to; ++p) dst[c * positions + p] = src[p * channels + c];
    }
}

}  // namespace

std::function<std::shared_ptr<void>(std::size_t)> batch_memory(Device& device) {
  if (device.shares_host_memory()) return {};
  return [&device](std::size_t bytes) { return device.allocate_host(bytes, "batches"); };
}

InputPipeline::InputPipeline(const std::vector<Field>& fields, Executor& executor, Context& context)
    : executor_(executor), context_(context), weight_{"weight", executor.input("weight"), false, {}, nullptr} {
  Device& device = context.device();
  const bool far = !device.shares_host_memory();
  if (far) queue_ = device.make_queue();
  const auto make_ahead = [&](Input& t, bool staged) {
    if (!far) return;
    t.ahead = context.allocate(t.tensor.desc(), t.name + " of the next step");
    if (staged) t.staged = device.allocate_host(t.tensor.bytes(), t.name + " on the host");
  };
  make_ahead(weight_, true);
  for (const auto& f : fields) {
    const auto tensor = executor.input(f.name);
    Shape expected = tensor.shape();
    Shape found = f.shape;
    if (found.rank() + 1 == expected.rank()) {
      found = Shape{executor.batch()};
      for (auto d : f.shape) found.push_back(d);
    }
    if (!(found == expected) || f.dtype != tensor.dtype())
      refuse("the samples' {} is {} {}, but the network takes {} {} for a batch of {}", f.name, to_string(f.shape),
             to_string(f.dtype), to_string(expected), to_string(tensor.dtype()), executor.batch());
    const bool channels_last = f.shape.rank() < 3 || tensor.layout().is_channels_last(expected);
    if (!channels_last && (!tensor.layout().is_plain(expected) || tensor.dtype() != DType::f32))
      fail("input {} has the layout {}, which is neither plain nor channels-last", f.name,
           tensor.layout().describe(expected));
    targets_.push_back({f.name, tensor, !channels_last, {}, nullptr});
    make_ahead(targets_.back(), !channels_last);
  }
  if (queue_) queue_->wait_for_device();  // memory is filled with zeros in the device's order
}

void InputPipeline::feed(const Batch& batch) { queue_ ? feed_device(batch) : feed_here(batch); }

void InputPipeline::finish() {
  if (queue_) queue_->wait();
}

void InputPipeline::feed_here(const Batch& batch) {
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    auto& t = targets_[i];
    const auto& s = t.tensor.shape();
    if (t.turn)
      turn_to_plain(static_cast<const float*>(batch.fields[i]), t.tensor.data<float>(), s[0], s[1],
                    s.elements() / (s[0] * s[1]));
    else
      executor_.read_input_from(t.name, batch.fields[i]);
  }
  context_.device().copy_from_host(weight_.tensor.raw(), batch.weight, weight_.tensor.bytes());
}

/// Each batch is copied while the step before is at work. Within the device it then goes to where the step reads it,
/// which costs little and leaves the step's calls as they are recorded.
void InputPipeline::feed_device(const Batch& batch) {
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    auto& t = targets_[i];
    const auto& s = t.tensor.shape();
    if (t.turn)
      turn_to_plain(static_cast<const float*>(batch.fields[i]), static_cast<float*>(t.staged.get()), s[0], s[1],
                    s.elements() / (s[0] * s[1]));
    queue_->copy_from_host(t.ahead.raw(), t.turn ? t.staged.get() : batch.fields[i], t.ahead.bytes());
  }
  std::memcpy(weight_.staged.get(), batch.weight, weight_.ahead.bytes());
  queue_->copy_from_host(weight_.ahead.raw(), weight_.staged.get(), weight_.ahead.bytes());
  queue_->device_waits();
  Device& device = context_.device();
  for (const auto& t : targets_) device.copy(t.tensor.raw(), t.ahead.raw(), t.tensor.bytes());
  device.copy(weight_.tensor.raw(), weight_.ahead.raw(), weight_.tensor.bytes());
  queue_->wait_for_device();  // the next batch may come when this one has left `ahead`
}

}  // namespace keelson
