#pragma once

#include "engine/ops/operands.hpp"

namespace keelson::ops {

/// The common base of convolution, transposed convolution and dense: dst is computed from src, weights and bias; src
/// and weights have the same dtype. `Desc` has src, weights, dst, params.bias and writes_diff_bias().
template <class Desc>
class WeightedPrimitive : public DescribedPrimitive<Desc> {
 public:
  /// The description of bias and of its gradient: plain f32, one element per channel or feature of dst.
  static TensorDesc bias_desc(const Desc& d) { return TensorDesc::plain(Shape{d.dst.shape[1]}); }
  /// The description of the gradient of src, which has the dtype of dst.
  static TensorDesc diff_src_desc(const Desc& d) { return {d.src.shape, d.dst.dtype, Layout::any()}; }
  /// The description of the gradient of dst, which has the dtype of src.
  static TensorDesc diff_dst_desc(const Desc& d) { return {d.dst.shape, d.src.dtype, Layout::any()}; }
  /// The description of the gradient of weights, which is f32.
  static TensorDesc diff_weights_desc(const Desc& d) { return {d.weights.shape, DType::f32, Layout::any()}; }

  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::src, &Desc::src> src;
    In<K, Role::weights, &Desc::weights> weights;
    OptionalIn<K, Role::bias, &WeightedPrimitive::bias_desc> bias;  ///< absent if params.bias is false
    Out<K, Role::dst, &Desc::dst> dst;
    Scratch<K> scratch;
  };
  template <class K>
  struct BackwardData {
    static constexpr Verb verb = Verb::backward_data;
    In<K, Role::diff_dst, &WeightedPrimitive::diff_dst_desc> diff_dst;
    In<K, Role::weights, &Desc::weights> weights;
    Out<K, Role::diff_src, &WeightedPrimitive::diff_src_desc> diff_src;
    Scratch<K> scratch;
  };
  template <class K>
  struct BackwardWeights {
    static constexpr Verb verb = Verb::backward_weights;
    In<K, Role::src, &Desc::src> src;
    In<K, Role::diff_dst, &WeightedPrimitive::diff_dst_desc> diff_dst;
    Out<K, Role::diff_weights, &WeightedPrimitive::diff_weights_desc> diff_weights;
    /// Absent if writes_diff_bias() is false.
    OptionalOut<K, Role::diff_bias, &WeightedPrimitive::bias_desc> diff_bias;
    Scratch<K> scratch;
  };

  /// dst = activation(src weights + bias), with the op's own product.
  virtual void forward(const Forward<Tensors>& args) = 0;
  /// Computes diff_src. diff_dst is the gradient of the result before the activation.
  virtual void backward_data(const BackwardData<Tensors>& args) = 0;
  /// Computes diff_weights and diff_bias from the same diff_dst.
  virtual void backward_weights(const BackwardWeights<Tensors>& args) = 0;
};

/// The layout of an operand of an op with weights; a gradient has the layout of its value.
template <class Desc>
Layout weighted_layout(const Desc& d, Role r) {
  using enum Role;
  if (r == src || r == diff_src) return d.src.layout;
  if (r == weights || r == diff_weights) return d.weights.layout;
  if (r == dst || r == diff_dst) return d.dst.layout;
  return Layout::plain(Shape{d.dst.shape[1]});  // bias
}

}  // namespace keelson::ops
