#pragma once

#include "engine/ops/operands.hpp"

namespace keelson::ops {

class BiasGradient;

/// The sum of each channel over the batch and all spatial positions: the gradient of a bias that was added to all
/// elements of a channel. Used if the op that added the bias does not compute this gradient (ConvDesc::diff_bias).
///
/// diff_dst (N, C, spatial...) is f32, bf16 or f16 of any strided layout; diff_bias is plain (C) f32. Sums are f64, in
/// an order that depends only on the shape and the device.
struct BiasGradientDesc {
  using Op = BiasGradient;
  TensorDesc diff_dst;

  TensorDesc bias_desc() const { return TensorDesc::plain({diff_dst.shape[1]}); }
};

class BiasGradient : public DescribedPrimitive<BiasGradientDesc> {
 public:
  template <class K>
  struct BackwardWeights {
    static constexpr Verb verb = Verb::backward_weights;
    In<K, Role::diff_dst, &BiasGradientDesc::diff_dst> diff_dst;
    Out<K, Role::diff_bias, &BiasGradientDesc::bias_desc> diff_bias;
    Scratch<K> scratch;
  };
  virtual void backward_weights(const BackwardWeights<Tensors>& args) = 0;
};

std::string describe(const BiasGradientDesc& d);

}  // namespace keelson::ops
