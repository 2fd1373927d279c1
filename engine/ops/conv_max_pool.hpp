#pragma once

#include "engine/ops/conv.hpp"
#include "engine/ops/pool.hpp"

namespace keelson::ops {

class ConvMaxPoolBackward;

/// The gradients of a convolution whose result goes, through its activation, into max pooling and to nobody else. One
/// element per window and channel receives a gradient, so diff_dst of the convolution is zero nearly everywhere: in 7
/// of 8 elements for windows of 2 x 2 x 2. This op works on the pooled gradient and the argmax indices of the windows
/// instead: it needs 1/8 of the FLOPs of Pool's and Conv's backward verbs, to the same result up to rounding, and
/// diff_dst is never made.
///
/// src (N, C, spatial...), weights (O, C, kernel...), dst (N, O, spatial'...) is the pooled result. Layouts may be
/// `any`.
struct ConvMaxPoolDesc {
  using Op = ConvMaxPoolBackward;
  ConvParams conv;
  PoolParams pool;
  TensorDesc src, weights, dst;
  bool diff_src = true;  ///< backward_data is wanted (false for the first layer)
};

/// Knows no forward verb.
class ConvMaxPoolBackward : public Primitive {
 public:
  /// `diff_dst` is the gradient of the pooled result, taken through the activation; `workspace` is that of the Pool
  /// (its forward must have met dst in the layout that this primitive has for it).
  virtual void backward_data(const Tensor& diff_dst, const Tensor& workspace, const Tensor& weights,
                             const Tensor& diff_src, const Tensor& scratch) = 0;
  virtual void backward_weights(const Tensor& src, const Tensor& diff_dst, const Tensor& workspace,
                                const Tensor& diff_weights, const Tensor& diff_bias, const Tensor& scratch) = 0;
};

}  // namespace keelson::ops
