#pragma once

#include <cstdint>
#include <string>

#include "engine/ops/conv.hpp"

/// Depthwise convolutions with kernels of 3 x 3 on GPUs, where each channel is a group, channels-last in f32, bf16 or
/// f16. cuDNN's engines take 2 to 10 times as long for few channels, for dilations, and for the gradient of the
/// weights. Including this needs no Kokkos.
namespace keelson::kokkos {

class DepthwiseDevice {
 public:
  /// "" if the kernels compute this convolution, else the reason why not. For all processors.
  static std::string unfit(const ops::ConvDesc& d);
  explicit DepthwiseDevice(const ops::ConvDesc& d);

  std::size_t forward_scratch_bytes() const;
  /// dst = the convolution, without bias and activation. Sums are f32, in the order of the taps.
  void forward(const void* src, const void* weights, void* dst, void* scratch) const;
  std::size_t weights_scratch_bytes() const;
  /// diff_weights (C, 3, 3) f32. The order of the sums depends only on the description.
  void backward_weights(const void* src, const void* diff_dst, float* diff_weights, void* scratch) const;

 private:
  ops::ConvDesc d_;
  std::int64_t channels_, slots_, positions_;  ///< positions: of dst, in all samples
};

}  // namespace keelson::kokkos
