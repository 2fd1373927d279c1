#pragma once

#include "engine/ops/eltwise.hpp"
#include "engine/ops/weighted.hpp"

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
  bool training = true;  ///< also makes the backward verbs
  bool diff_src = true;  ///< backward_data is needed
  bool tf32 = false;     ///< f32 operands may be rounded to 10 bits of mantissa before they are multiplied

  bool writes_diff_bias() const { return params.bias; }  ///< whether backward_weights writes diff_bias
  std::vector<Verb> verbs() const;                       ///< those that are needed
  void take_layouts(const Dense& dense);                 ///< as of ConvDesc

  friend bool operator==(const DenseDesc&, const DenseDesc&) = default;
};

/// dst = activation(src weights^T + bias).
class Dense : public WeightedPrimitive<DenseDesc> {};

double dense_flops(const DenseDesc& d);  ///< FLOPs of one verb

std::string describe(const DenseDesc& d);

}  // namespace keelson::ops
