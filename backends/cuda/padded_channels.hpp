#pragma once

#include "engine/tensor/tensor.hpp"

/// Channels-last values with zeros behind each element's channels, so that their number is what tensor cores take at
/// once. A convolution asks for them once, where all its verbs would pad a copy of their own.
namespace keelson::cuda {

class PaddedChannels final : public OpaqueLayout {
 public:
  /// Of values of this shape (N, C, spatial...) and dtype, with `channels` in memory.
  PaddedChannels(const Shape& shape, DType dtype, std::int64_t channels)
      : shape_(shape), dtype_(dtype), channels_(channels) {}
  std::string_view backend() const override { return "cuda"; }
  std::size_t bytes() const override;
  bool equals(const OpaqueLayout& other) const override;
  std::string to_string() const override;
  std::int64_t channels() const { return channels_; }

  static Layout layout(const Shape& shape, DType dtype, std::int64_t channels);
  /// Channels in memory of a layout that is one of these; 0: of another one.
  static std::int64_t channels_of(const Layout& layout);

 private:
  Shape shape_;
  DType dtype_;
  std::int64_t channels_;
};

}  // namespace keelson::cuda
