#pragma once

#include "backends/kokkos/common/vector_math.hpp"
#include "engine/ops/eltwise.hpp"

/// The element-wise functions, one struct per EltwiseKind: value(p, x) and derivative(p, saved). `saved` is the result
/// if derivative_from_dst(p), else the argument. A NaN stays a NaN.
namespace keelson::kokkos {

using ops::EltwiseKind;
using ops::EltwiseParams;

struct Identity {
  KOKKOS_INLINE_FUNCTION static float value(const EltwiseParams&, float x) { return x; }
  KOKKOS_INLINE_FUNCTION static float derivative(const EltwiseParams&, float) { return 1; }
};

struct Relu {
  KOKKOS_INLINE_FUNCTION static float value(const EltwiseParams&, float x) { return x <= 0 ? 0.0f : x; }
  KOKKOS_INLINE_FUNCTION static float derivative(const EltwiseParams&, float y) { return y > 0 ? 1.0f : 0.0f; }
};

struct LeakyRelu {
  KOKKOS_INLINE_FUNCTION static float value(const EltwiseParams& p, float x) { return x > 0 ? x : p.alpha * x; }
  KOKKOS_INLINE_FUNCTION static float derivative(const EltwiseParams& p, float s) { return s > 0 ? 1.0f : p.alpha; }
};

struct Tanh {
  KOKKOS_INLINE_FUNCTION static float value(const EltwiseParams&, float x) { return fast_tanh(x); }
  KOKKOS_INLINE_FUNCTION static float derivative(const EltwiseParams&, float y) { return (1 - y) * (1 + y); }
};

struct Sigmoid {
  KOKKOS_INLINE_FUNCTION static float value(const EltwiseParams&, float x) { return 1 / (1 + fast_exp(-x)); }
  KOKKOS_INLINE_FUNCTION static float derivative(const EltwiseParams&, float y) { return y * (1 - y); }
};

struct Gelu {
  static constexpr float sqrt_half = 0.70710678118654752f, inv_sqrt_two_pi = 0.39894228040143268f;
  KOKKOS_INLINE_FUNCTION static float value(const EltwiseParams&, float x) {
    return 0.5f * x * fast_erfc(-x * sqrt_half);  // erfc(-z) = 1 + erf(z) avoids cancellation for z << 0
  }
  KOKKOS_INLINE_FUNCTION static float derivative(const EltwiseParams&, float x) {
    return 0.5f * fast_erfc(-x * sqrt_half) + x * inv_sqrt_two_pi * fast_exp(-0.5f * x * x);
  }
};

struct Silu {
  KOKKOS_INLINE_FUNCTION static float value(const EltwiseParams& p, float x) { return x * Sigmoid::value(p, x); }
  KOKKOS_INLINE_FUNCTION static float derivative(const EltwiseParams& p, float x) {
    const float s = Sigmoid::value(p, x);
    return s * (1 + x * (1 - s));
  }
};

struct Elu {
  KOKKOS_INLINE_FUNCTION static float value(const EltwiseParams& p, float x) {
    return x > 0 ? x : p.alpha * (fast_exp(x) - 1);
  }
  KOKKOS_INLINE_FUNCTION static float derivative(const EltwiseParams& p, float s) {
    if (s > 0) return 1;
    return p.alpha >= 0 ? s + p.alpha : p.alpha * fast_exp(s);
  }
};

struct Softplus {
  KOKKOS_INLINE_FUNCTION static float value(const EltwiseParams&, float x) {
    return (x < 0 ? 0.0f : x) + Kokkos::log1p(fast_exp(-Kokkos::fabs(x)));
  }
  KOKKOS_INLINE_FUNCTION static float derivative(const EltwiseParams& p, float x) { return Sigmoid::value(p, x); }
};

struct Linear {
  KOKKOS_INLINE_FUNCTION static float value(const EltwiseParams& p, float x) { return p.alpha * x + p.beta; }
  KOKKOS_INLINE_FUNCTION static float derivative(const EltwiseParams& p, float) { return p.alpha; }
};

struct Abs {
  KOKKOS_INLINE_FUNCTION static float value(const EltwiseParams&, float x) { return Kokkos::fabs(x); }
  KOKKOS_INLINE_FUNCTION static float derivative(const EltwiseParams&, float x) {
    return x > 0 ? 1.0f : x < 0 ? -1.0f : x;  // 0 and NaN stay
  }
};

struct Exp {
  KOKKOS_INLINE_FUNCTION static float value(const EltwiseParams&, float x) { return fast_exp(x); }
  KOKKOS_INLINE_FUNCTION static float derivative(const EltwiseParams&, float y) { return y; }
};

struct Log {
  KOKKOS_INLINE_FUNCTION static float value(const EltwiseParams&, float x) { return Kokkos::log(x); }
  KOKKOS_INLINE_FUNCTION static float derivative(const EltwiseParams&, float x) { return 1 / x; }
};

struct Power {
  KOKKOS_INLINE_FUNCTION static float of(float x, float exponent) {
    if (exponent == 1) return x;
    if (exponent == 2) return x * x;
    if (exponent == 0.5f) return Kokkos::sqrt(x);
    if (exponent == -1) return 1 / x;
    return Kokkos::pow(x, exponent);
  }
  KOKKOS_INLINE_FUNCTION static float value(const EltwiseParams& p, float x) { return of(x, p.alpha); }
  KOKKOS_INLINE_FUNCTION static float derivative(const EltwiseParams& p, float x) {
    return p.alpha == 0 ? 0 : p.alpha * of(x, p.alpha - 1);
  }
};

/// Calls use(F{}) with the struct F of `kind`: one branch outside of the loops.
template <class Use>
void with_function(EltwiseKind kind, const Use& use) {
  switch (kind) {
    case EltwiseKind::identity:
      return use(Identity{});
    case EltwiseKind::relu:
      return use(Relu{});
    case EltwiseKind::leaky_relu:
      return use(LeakyRelu{});
    case EltwiseKind::tanh:
      return use(Tanh{});
    case EltwiseKind::sigmoid:
      return use(Sigmoid{});
    case EltwiseKind::gelu:
      return use(Gelu{});
    case EltwiseKind::silu:
      return use(Silu{});
    case EltwiseKind::elu:
      return use(Elu{});
    case EltwiseKind::softplus:
      return use(Softplus{});
    case EltwiseKind::linear:
      return use(Linear{});
    case EltwiseKind::abs:
      return use(Abs{});
    case EltwiseKind::exp:
      return use(Exp{});
    case EltwiseKind::log:
      return use(Log{});
    case EltwiseKind::power:
      return use(Power{});
  }
}

template <class F, int N>
KOKKOS_INLINE_FUNCTION void apply(const EltwiseParams& p, float (&x)[N]) {
  const EltwiseParams params = p;  // which x cannot overwrite
  KEELSON_KEEP_LOOP
  for (int i = 0; i < N; ++i) x[i] = F::value(params, x[i]);
}

/// The function on the values of a register: the epilogue of convolution and dense.
template <int N>
KOKKOS_INLINE_FUNCTION void activate(const EltwiseParams& p, float (&x)[N]) {
  switch (p.kind) {
    case EltwiseKind::identity:
      return;
    case EltwiseKind::relu:
      return apply<Relu>(p, x);
    case EltwiseKind::leaky_relu:
      return apply<LeakyRelu>(p, x);
    case EltwiseKind::tanh:
      return apply<Tanh>(p, x);
    case EltwiseKind::sigmoid:
      return apply<Sigmoid>(p, x);
    case EltwiseKind::gelu:
      return apply<Gelu>(p, x);
    case EltwiseKind::silu:
      return apply<Silu>(p, x);
    case EltwiseKind::elu:
      return apply<Elu>(p, x);
    case EltwiseKind::softplus:
      return apply<Softplus>(p, x);
    case EltwiseKind::linear:
      return apply<Linear>(p, x);
    case EltwiseKind::abs:
      return apply<Abs>(p, x);
    case EltwiseKind::exp:
      return apply<Exp>(p, x);
    case EltwiseKind::log:
      return apply<Log>(p, x);
    case EltwiseKind::power:
      return apply<Power>(p, x);
  }
}

}  // namespace keelson::kokkos
