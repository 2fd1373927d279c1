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

/// The result of a verb; of backward_weights the gradient of the weights, while that of the bias is checked. `b` empty:
/// no bias.
inline Array run_conv(Context& ctx, ops::Conv& op, ops::Verb v, const Array& x, const Array& w, const Array& b,
                      const Array& dy) {
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
inline Array conv_result(const ops::ConvParams& p, ops::Verb v, const Array& x, const Array& w, const Array& b,
                         const Array& dy) {
  if (v == ops::Verb::forward) return oracle::conv_forward(x, w, b, p);
  if (v == ops::Verb::backward_data) return oracle::conv_backward_data(dy, w, x.shape, p);
  return oracle::conv_backward_weights(x, dy, w.shape, p);
}

}  // namespace keelson::testing
