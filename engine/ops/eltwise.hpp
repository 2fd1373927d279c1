#pragma once

#include <string>

#include "engine/ops/operands.hpp"

namespace keelson::ops {

/// A function of each element.
enum class EltwiseKind : std::uint8_t {
  identity,
  relu,        ///< max(x, 0)
  leaky_relu,  ///< x > 0 ? x : alpha x
  tanh,
  sigmoid,
  gelu,      ///< x/2 (1 + erf(x / sqrt 2)), exact (Hendrycks & Gimpel 2016)
  silu,      ///< x sigmoid(x) (swish with beta 1)
  elu,       ///< x > 0 ? x : alpha (exp(x) - 1) (Clevert et al. 2016)
  softplus,  ///< log(1 + exp(x)), stable
  linear,    ///< alpha x + beta
  abs,       ///< |x|, with the derivative 0 at 0
  exp,
  log,    ///< -infinity for 0, NaN below
  power,  ///< x^alpha; NaN below 0 unless alpha is a whole number
};

/// A function and its two parameters.
struct EltwiseParams {
  EltwiseKind kind = EltwiseKind::identity;  ///< function
  float alpha = 0;                           ///< first parameter
  float beta = 0;                            ///< second parameter
  friend bool operator==(const EltwiseParams&, const EltwiseParams&) = default;
};

std::string to_string(const EltwiseParams& p);  ///< "leaky_relu(0.3)"

/// Whether networks use the function behind layers with weights, which may then apply it themselves. The others are for
/// formulas (linear, abs, exp, log, power), or do nothing (identity).
constexpr bool is_activation(EltwiseKind kind) {
  switch (kind) {
    case EltwiseKind::identity:
    case EltwiseKind::linear:
    case EltwiseKind::abs:
    case EltwiseKind::exp:
    case EltwiseKind::log:
    case EltwiseKind::power:
      return false;
    default:
      return true;
  }
}

/// Whether the derivative can be computed from dst alone. Then forward may run in place and be fused into its producer.
/// At 0 the derivative of (leaky) ReLU is alpha.
constexpr bool derivative_from_dst(const EltwiseParams& p) {
  switch (p.kind) {
    case EltwiseKind::leaky_relu:
    case EltwiseKind::elu:
      return p.alpha >= 0;
    case EltwiseKind::gelu:
    case EltwiseKind::silu:
    case EltwiseKind::softplus:
    case EltwiseKind::abs:
    case EltwiseKind::log:
    case EltwiseKind::power:
      return false;
    default:
      return true;
  }
}

class Eltwise;

/// Shapes: dst = src, any rank. The layout must not be `any`: element-wise ops use the layout of their source.
struct EltwiseDesc {
  using Op = Eltwise;
  EltwiseParams params;
  TensorDesc src;
};

/// Every operand has the layout of `src`. Padding of opaque layouts stays zero.
class Eltwise : public DescribedPrimitive<EltwiseDesc> {
 public:
  template <class K>
  struct Forward {
    static constexpr Verb verb = Verb::forward;
    In<K, Role::src, &EltwiseDesc::src> src;
    Out<K, Role::dst, &EltwiseDesc::src, Role::src> dst;
  };
  template <class K>
  struct BackwardData {
    static constexpr Verb verb = Verb::backward_data;
    In<K, Role::diff_dst, &EltwiseDesc::src> diff_dst;
    In<K, Role::saved, &EltwiseDesc::src> saved;  ///< dst if derivative_from_dst(params), else src
    Out<K, Role::diff_src, &EltwiseDesc::src, Role::diff_dst> diff_src;
  };

  virtual void forward(const Forward<Tensors>& args) = 0;
  virtual void backward_data(const BackwardData<Tensors>& args) = 0;
};

std::string describe(const EltwiseDesc& d);

}  // namespace keelson::ops
