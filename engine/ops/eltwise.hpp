#pragma once

#include <string>

#include "engine/ops/primitive.hpp"

namespace keelson::ops {

enum class EltwiseKind : std::uint8_t {
  identity,
  relu,        ///< max(x, 0)
  leaky_relu,  ///< x > 0 ? x : alpha x
  tanh,
  sigmoid,
  gelu,    ///< x/2 (1 + erf(x / sqrt 2)), exact (Hendrycks & Gimpel 2016)
  silu,    ///< x sigmoid(x) (swish with beta 1)
  linear,  ///< alpha x + beta
};

struct EltwiseParams {
  EltwiseKind kind = EltwiseKind::identity;
  float alpha = 0;
  float beta = 0;
  friend bool operator==(const EltwiseParams&, const EltwiseParams&) = default;
};

std::string to_string(const EltwiseParams& p);  ///< "leaky_relu(0.3)"

/// Whether the derivative can be had from dst alone, so that forward may run in place and be fused into its producer.
/// At 0 the derivative of (leaky) ReLU is alpha.
constexpr bool derivative_from_dst(const EltwiseParams& p) {
  switch (p.kind) {
    case EltwiseKind::leaky_relu:
      return p.alpha >= 0;
    case EltwiseKind::gelu:
    case EltwiseKind::silu:
      return false;
    default:
      return true;
  }
}

class Eltwise;

/// Shapes: dst = src, any rank. With layout `any` not allowed: element-wise work adopts its producer's layout.
struct EltwiseDesc {
  using Op = Eltwise;
  EltwiseParams params;
  TensorDesc src;
};

/// Every operand has the layout of `src`. Padding of opaque layouts stays zero.
class Eltwise : public Primitive {
 public:
  /// dst may be src (in place).
  virtual void forward(const Tensor& src, const Tensor& dst) = 0;
  /// `saved` is dst where derivative_from_dst(params), else src. diff_src may be diff_dst (in place).
  virtual void backward(const Tensor& diff_dst, const Tensor& saved, const Tensor& diff_src) = 0;
};

}  // namespace keelson::ops
