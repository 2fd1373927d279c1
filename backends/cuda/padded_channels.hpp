#pragma once

#include "engine/tensor/tensor.hpp"

/// Channels-last values with added channels of zeros, so that the number of channels suits tensor cores. A convolution
/// asks for this layout, so that its verbs need not make padded copies.
namespace keelson::cuda {

class PaddedChannels final : public OpaqueLayout {
 public:
  /// For values of this shape (N, C, spatial...) and dtype, with `channels` in memory.
  PaddedChannels(const Shape& shape, DType dtype, std::int64_t channels)
      : shape_(shape), dtype_(dtype), channels_(channels) {}
  std::string_view backend() const override { return "cuda"; }
  std::size_t bytes() const override;
  bool equals(const OpaqueLayout& other) const override;
  std::string to_string() const override;
  std::int64_t channels() const { return channels_; }

  static Layout layout(const Shape& shape, DType dtype, std::int64_t channels);
  /// The number of channels in memory if `layout` is such a layout, else 0.
  static std::int64_t channels_of(const Layout& layout);

 private:
  Shape shape_;
  DType dtype_;
  std::int64_t channels_;
};

}  // namespace keelson::cuda
