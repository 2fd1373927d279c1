#pragma once

#include <cstdint>
#include <string>

#include "engine/ops/conv_max_pool.hpp"
#include "engine/ops/factory.hpp"

/// A first layer on tensor cores: a convolution of 3 x 3 x 3 of 1 to 4 channels and the max pooling that reads it, as
/// one kernel that never stores the convolution's result; and the gradient of its weights from the argmax indices. For
/// so few channels cuDNN's kernels reach a tenth of what the tensor cores can do, and the result is large.
namespace keelson::cuda {

/// The extents of one call.
struct PooledConvShape {
  int batch, src[3], windows[3], pad[3];
  int tiles[3];                ///< of a sample, along each dim
  int channels, src_channels;  ///< of src, and those that it has in memory
  int filters;
};

class PooledConv {
 public:
  /// "" if the kernels compute this, apart from layouts, on a GPU of this architecture (90: sm_90); else the reason why
  /// not.
  static std::string unfit(const ops::ConvParams& conv, const ops::PoolParams& pool, const TensorDesc& src,
                           const TensorDesc& dst, int architecture);
  /// "" if forward() has the activation, else the reason why not.
  static std::string unfit(const ops::EltwiseParams& activation);
  /// `src_channels`: the number of contiguous channels of src in memory; the first ones are those of the shape.
  PooledConv(const ops::ConvParams& conv, const TensorDesc& src, const TensorDesc& dst, std::int64_t src_channels);

  /// src (N, spatial..., channels), weights (O, taps, channels) of the same type, bias f32 or null, dst (N,
  /// spatial'..., O); argmax: the indices of the maxima as Pool writes them, or null. Before the maximum, f32 results
  /// are cut to 21 bits: among results that are then equal, any index may be written. An infinite result becomes NaN.
  void forward(const void* src, const void* weights, const float* bias, void* dst, std::uint8_t* argmax) const;

  /// sums (block, taps, channels, O), f32: the gradient of the weights is their sum over the blocks. The order of the
  /// additions depends only on the shape.
  void sum_weights(const void* src, const void* diff_dst, const std::uint8_t* argmax, float* sums) const;
  std::int64_t blocks() const { return blocks_; }  ///< of sums

 private:
  static float slope_of(const ops::EltwiseParams& activation);

  PooledConvShape shape_;
  DType type_;
  float slope_;  ///< of the activation for negative arguments
  std::int64_t tiles_, blocks_;
};

/// Both ops. Their src is channels-last; that of the gradient may also be padded.
ops::Expected<ops::ConvMaxPoolForward> make_pooled_conv(const ops::ConvMaxPoolForwardDesc& d, int architecture);
ops::Expected<ops::ConvMaxPoolBackward> make_pooled_conv_weights(const ops::ConvMaxPoolDesc& d, int architecture);

}  // namespace keelson::cuda
