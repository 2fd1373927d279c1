#pragma once

#include <algorithm>
#include <cmath>

#include "tests/ops/op_test.hpp"

/// Running one verb of a convolution, and comparing it with its definition.
namespace keelson::testing {

struct ConvErrors {
  double mean = 0, largest = 0;
};

/// Of the differences: the root of their mean square, and the largest.
inline ConvErrors errors_of(const Array& got, const Array& want) {
  ConvErrors e;
  for (std::int64_t i = 0; i < want.elements(); ++i) {
    const double d = std::abs(got[i] - want[i]);
    e.mean += d * d;
    e.largest = std::max(e.largest, d);
  }
  e.mean = std::sqrt(e.mean / static_cast<double>(want.elements()));
  return e;
}

/// Checks the errors of a verb by Primitive::relative_error(). of_direct: those of the direct convolution.
inline void expect_errors(const ops::Primitive& op, ops::Verb v, const Array& got, const Array& want,
                          const ConvErrors& of_direct) {
  EXPECT_TRUE(close(got, want, "result", {1e-5, 1e-5}));
  // Sums of few terms have nearly no error in a direct convolution: what one rounding makes is always allowed.
  const double rounding = 1e-7 * errors_of(Array(want.shape), want).mean, times = 1.5 * op.relative_error(v);
  const ConvErrors e = errors_of(got, want);
  EXPECT_LE(e.mean, times * (of_direct.mean + rounding));
  EXPECT_LE(e.largest, 4 * times * (of_direct.largest + rounding)) << "a single element's error varies more";
}

/// src and dst are channels-last, all is f32.
inline ops::ConvDesc channels_last_conv(const ops::ConvParams& params, const Shape& src, const Shape& weights,
                                        const Layout& weights_layout) {
  const Shape dst = ops::conv_dst_shape(src, params, weights[0]);
  ops::ConvDesc d;
  d.params = params;
  d.src = {src, DType::f32, Layout::channels_last(src)};
  d.weights = {weights, DType::f32, weights_layout};
  d.dst = {dst, DType::f32, Layout::channels_last(dst)};
  return d;
}

/// A convolution of channels-last images, without stride and dilation.
struct ImageConvCase {
  std::string name, about;
  Shape src;
  std::int64_t filters;
  Shape kernel, pad_begin, pad_end;
  ops::EltwiseParams activation = {};
  bool bias = true;

  Shape weights() const { return {filters, src[1], kernel[0], kernel[1]}; }
  ops::ConvParams params() const { return {kernel, {1, 1}, {1, 1}, pad_begin, pad_end, 1, bias, activation}; }
  Shape dst() const { return ops::conv_dst_shape(src, params(), filters); }
  ops::ConvDesc desc(const Layout& weights_layout) const {
    return channels_last_conv(params(), src, weights(), weights_layout);
  }
};

/// Random operands; no bias: an empty `b`.
struct ConvOperands {
  Array x, w, dy, b;
  ConvOperands(const Shape& src, const Shape& weights, const Shape& dst, bool bias)
      : x(oracle::random_uniform(src, "src")),
        w(oracle::random_uniform(weights, "weights", -0.5, 0.5)),
        dy(oracle::random_uniform(dst, "diff_dst")),
        b(bias ? oracle::random_uniform(Shape{weights[0]}, "bias") : Array()) {}
};

/// The result of a verb; of backward_weights the gradient of the weights, while that of the bias is checked.
inline Array run_conv(Context& ctx, ops::Conv& op, ops::Verb v, const ConvOperands& operands) {
  const auto& [x, w, dy, b] = operands;
  using ops::Role;
  const auto at = [&](Role r) { return op.layout(v, r); };
  const auto extra = scratch(ctx, op.scratch_bytes(v));
  const auto bias = b.empty() ? Tensor() : put(ctx, b, Layout::plain(b.shape));
  if (v == ops::Verb::forward) {
    const auto dst = destination(ctx, dy.shape, at(Role::dst));
    op.forward({put(ctx, x, at(Role::src)), put(ctx, w, at(Role::weights)), bias, dst, extra});
    return get(ctx, dst);
  }
  if (v == ops::Verb::backward_data) {
    const auto dx = destination(ctx, x.shape, at(Role::diff_src));
    op.backward_data({put(ctx, dy, at(Role::diff_dst)), put(ctx, w, at(Role::weights)), dx, extra});
    return get(ctx, dx);
  }
  const auto dw = destination(ctx, w.shape, at(Role::diff_weights));
  const auto db = b.empty() ? Tensor() : destination(ctx, b.shape, Layout::plain(b.shape));
  op.backward_weights({put(ctx, x, at(Role::src)), put(ctx, dy, at(Role::diff_dst)), dw, db, extra});
  if (db) {
    EXPECT_TRUE(close(get(ctx, db), oracle::backward_bias(dy), "diff_bias", {1e-5, 1e-5}));
  }
  return get(ctx, dw);
}

/// The same by the definition.
inline Array conv_result(const ops::ConvParams& p, ops::Verb v, const ConvOperands& operands) {
  const auto& [x, w, dy, b] = operands;
  if (v == ops::Verb::forward) return oracle::conv_forward(x, w, b, p);
  if (v == ops::Verb::backward_data) return oracle::conv_backward_data(dy, w, x.shape, p);
  return oracle::conv_backward_weights(x, dy, w.shape, p);
}

}  // namespace keelson::testing
