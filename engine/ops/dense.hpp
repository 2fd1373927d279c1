#pragma once

#include "engine/ops/eltwise.hpp"

namespace keelson::ops {

struct DenseParams {
  bool bias = true;
  EltwiseParams activation;  ///< as in ConvParams
};

class Dense;

/// src (N, in), weights (out, in), bias (out), dst (N, out) = activation(src weights^T + bias). Layouts may be `any`;
/// bias is plain; dtypes as in ConvDesc.
struct DenseDesc {
  using Op = Dense;
  DenseParams params;
  TensorDesc src, weights, dst;
  bool training = true;
  bool diff_src = true;
  bool tf32 = false;  ///< f32 operands may be rounded to 10 bits of mantissa before they are multiplied
};

class Dense : public Primitive {
 public:
  virtual void forward(const Tensor& src, const Tensor& weights, const Tensor& bias, const Tensor& dst,
                       const Tensor& scratch) = 0;
  virtual void backward_data(const Tensor& diff_dst, const Tensor& weights, const Tensor& diff_src,
                             const Tensor& scratch) = 0;
  virtual void backward_weights(const Tensor& src, const Tensor& diff_dst, const Tensor& diff_weights,
                                const Tensor& diff_bias, const Tensor& scratch) = 0;
};

double dense_flops(const DenseDesc& d);  ///< of one verb

}  // namespace keelson::ops
