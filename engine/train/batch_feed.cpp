#include "engine/train/batch_feed.hpp"

#include <algorithm>

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

BatchFeed::BatchFeed(const std::vector<Field>& fields, Plan& plan, Context& context)
    : plan_(plan), context_(context), weight_(plan.input("weight")) {
  for (const auto& f : fields) {
    const auto tensor = plan.input(f.name);
    Shape expected = tensor.shape();
    Shape found = f.shape;
    if (found.rank() + 1 == expected.rank()) {
      found = Shape{plan.batch()};
      for (auto d : f.shape) found.push_back(d);
    }
    if (!(found == expected) || f.dtype != tensor.dtype())
      refuse("the samples' {} is {} {}, but the network takes {} {} for a batch of {}", f.name, to_string(f.shape),
             to_string(f.dtype), to_string(expected), to_string(tensor.dtype()), plan.batch());
    const bool channels_last = f.shape.rank() < 3 || tensor.layout().is_channels_last(expected);
    if (!channels_last && (!tensor.layout().is_plain(expected) || tensor.dtype() != DType::f32))
      fail("input {} has the layout {}, which is neither plain nor channels-last", f.name,
           tensor.layout().describe(expected));
    const bool staged = !channels_last && !context.device().host_accessible();
    targets_.push_back(
        {f.name, tensor, !channels_last, std::vector<float>(staged ? static_cast<std::size_t>(tensor.elements()) : 0)});
  }
}

void BatchFeed::feed(const Batch& batch) {
  auto& device = context_.device();
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    auto& t = targets_[i];
    if (t.turn) {
      const auto& s = t.tensor.shape();
      auto* turned = t.staging.empty() ? t.tensor.data<float>() : t.staging.data();
      turn_to_plain(static_cast<const float*>(batch.fields[i]), turned, s[0], s[1], s.elements() / (s[0] * s[1]));
      if (!t.staging.empty()) device.copy_from_host(t.tensor.raw(), t.staging.data(), t.tensor.bytes());
    } else if (device.host_accessible()) {
      plan_.read_input_from(t.name, batch.fields[i]);
    } else {
      device.copy_from_host(t.tensor.raw(), batch.fields[i], t.tensor.bytes());
    }
  }
  device.copy_from_host(weight_.raw(), batch.weight, weight_.bytes());
}

}  // namespace keelson
