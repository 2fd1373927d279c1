#include "backends/cuda/padded_channels.hpp"

#include <fmt/format.h>

namespace keelson::cuda {

std::size_t PaddedChannels::bytes() const {
  return static_cast<std::size_t>(shape_.elements() / shape_[1] * channels_) * size_of(dtype_);
}

bool PaddedChannels::equals(const OpaqueLayout& other) const {
  const auto* o = dynamic_cast<const PaddedChannels*>(&other);
  return o && o->shape_ == shape_ && o->dtype_ == dtype_ && o->channels_ == channels_;
}

std::string PaddedChannels::to_string() const {
  return fmt::format("channels-last, {} padded to {}", shape_[1], channels_);
}

Layout PaddedChannels::layout(const Shape& shape, DType dtype, std::int64_t channels) {
  return Layout::opaque(std::make_shared<PaddedChannels>(shape, dtype, channels));
}

std::int64_t PaddedChannels::channels_of(const Layout& layout) {
  if (!layout.is_opaque()) return 0;
  const auto* padded = dynamic_cast<const PaddedChannels*>(&layout.opaque());
  return padded ? padded->channels() : 0;
}

}  // namespace keelson::cuda
