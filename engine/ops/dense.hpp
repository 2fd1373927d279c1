#pragma once

#include "engine/ops/eltwise.hpp"

namespace keelson::ops {

/// The parameters of a dense layer.
struct DenseParams {
  bool bias = true;          ///< whether there is a bias
  EltwiseParams activation;  ///< as in ConvParams
  friend bool operator==(const DenseParams&, const DenseParams&) = default;
};

class Dense;

/// src (N, in), weights (out, in), bias (out), dst (N, out) = activation(src weights^T + bias). Layouts may be `any`;
/// bias is plain; dtypes as in ConvDesc.
struct DenseDesc {
  using Op = Dense;
  DenseParams params;
  TensorDesc src, weights, dst;
  bool training = true;  ///< also make the backward verbs
  bool diff_src = true;  ///< backward_data is wanted
  bool tf32 = false;     ///< f32 operands may be rounded to 10 bits of mantissa before they are multiplied

  friend bool operator==(const DenseDesc&, const DenseDesc&) = default;

  TensorDesc bias_desc() const { return TensorDesc::plain({weights.shape[0]}); }
  TensorDesc diff_src_desc() const { return {src.shape, dst.dtype, Layout::any()}; }
  TensorDesc diff_dst_desc() const { return {dst.shape, src.dtype, Layout::any()}; }
  TensorDesc diff_weights_desc() const { return {weights.shape, DType::f32, Layout::any()}; }
};

class Dense : public DescribedPrimitive<DenseDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::src, &DenseDesc::src> src;
    In<K, Role::weights, &DenseDesc::weights> weights;
    OptionalIn<K, Role::bias, &DenseDesc::bias_desc> bias;  ///< absent where params.bias is false
    Out<K, Role::dst, &DenseDesc::dst> dst;
    Scratch<K> scratch;
  };
  template <class K>
  struct BackwardData {
    static constexpr Verb verb = Verb::backward_data;
    In<K, Role::diff_dst, &DenseDesc::diff_dst_desc> diff_dst;
    In<K, Role::weights, &DenseDesc::weights> weights;
    Out<K, Role::diff_src, &DenseDesc::diff_src_desc> diff_src;
    Scratch<K> scratch;
  };
  template <class K>
  struct BackwardWeights {
    static constexpr Verb verb = Verb::backward_weights;
    In<K, Role::src, &DenseDesc::src> src;
    In<K, Role::diff_dst, &DenseDesc::diff_dst_desc> diff_dst;
    Out<K, Role::diff_weights, &DenseDesc::diff_weights_desc> diff_weights;
    OptionalOut<K, Role::diff_bias, &DenseDesc::bias_desc> diff_bias;
    Scratch<K> scratch;
  };

  virtual void forward(const Forward<Tensors>& args) = 0;
  /// diff_dst is the gradient before the activation.
  virtual void backward_data(const BackwardData<Tensors>& args) = 0;
  virtual void backward_weights(const BackwardWeights<Tensors>& args) = 0;
};

double dense_flops(const DenseDesc& d);  ///< of one verb

std::string describe(const DenseDesc& d);

}  // namespace keelson::ops
