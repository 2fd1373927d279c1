#include "engine/ops/dense.hpp"
#include "tests/ops/op_test.hpp"

/// Convolutions and dense layers with bf16 operands, where a backend has them. Their products are exact in f32, so that
/// with operands that bf16 holds exactly results are as near the oracle's as those of f32.
namespace keelson::testing {
namespace {

using ops::Role;
using ops::Verb;

struct Bf16Case {
  std::string name, about;
  Shape src, weights;
  Shape stride;  ///< empty: dense
};

class Bf16Test : public CaseTest<Bf16Case> {
 protected:
  Tensor put_bf16(const Array& a, const Layout& layout) { return put(ctx(), a, layout, DType::bf16); }
  static Array rounded(const Array& a) { return testing::rounded(a, DType::bf16); }

  template <class Op>
  void check_all(Op& op, const Shape& dst_shape, const Array& x, const Array& w, const Array& b, const Array& dy,
                 const Array& y, const Array& dw, const Array& dx) {
    const auto extra = [&](Verb v) { return scratch(ctx(), op.scratch_bytes(v)); };
    const auto dst = destination(ctx(), dst_shape, op.layout(Verb::forward, Role::dst));
    op.forward({put_bf16(x, op.layout(Verb::forward, Role::src)), put_bf16(w, op.layout(Verb::forward, Role::weights)),
                put(ctx(), b, Layout::plain(b.shape)), dst, extra(Verb::forward)});
    check(dst, y, "dst");
    const auto diff_src = destination(ctx(), c().src, op.layout(Verb::backward_data, Role::diff_src));
    op.backward_data({put_bf16(dy, op.layout(Verb::backward_data, Role::diff_dst)),
                      put_bf16(w, op.layout(Verb::backward_data, Role::weights)), diff_src,
                      extra(Verb::backward_data)});
    check(diff_src, dx, "diff_src");
    const auto diff_w = destination(ctx(), c().weights, op.layout(Verb::backward_weights, Role::diff_weights));
    const auto diff_b = destination(ctx(), b.shape, Layout::plain(b.shape));
    op.backward_weights({put_bf16(x, op.layout(Verb::backward_weights, Role::src)),
                         put_bf16(dy, op.layout(Verb::backward_weights, Role::diff_dst)), diff_w, diff_b,
                         extra(Verb::backward_weights)});
    const bool rounds = op.backend() == "cuda" && !c().stride.empty();  // cuDNN's engines (docs/gpus.md)
    check(diff_w, dw, "diff_weights", tolerance(rounds ? DType::bf16 : DType::f32));
    check(diff_b, oracle::backward_bias(dy), "diff_bias");
  }

  TensorDesc any(const Shape& s, DType t) { return {s, t, Layout::any()}; }
};

TEST_P(Bf16Test, MatchesOracle) {
  const Array x = rounded(oracle::random_uniform(c().src, "src")),
              w = rounded(oracle::random_uniform(c().weights, "weights", -0.5, 0.5)),
              b = oracle::random_uniform(Shape{c().weights[0]}, "bias");
  const auto src = any(c().src, DType::bf16), weights = any(c().weights, DType::bf16);
  if (c().stride.empty()) {
    const Shape shape{c().src[0], c().weights[0]};
    const Array dy = rounded(oracle::random_uniform(shape, "diff_dst"));
    const auto op = make(ops::DenseDesc{{}, src, weights, any(shape, DType::f32)});
    if (!op) return;
    check_all(*op, shape, x, w, b, dy, oracle::dense_forward(x, w, b, {}), oracle::dense_backward_weights(x, dy),
              oracle::dense_backward_data(dy, w));
    return;
  }
  const int spatial = c().stride.rank();
  const Shape ones = Shape::filled(spatial, 1);
  Shape kernel;
  for (int i = 0; i < spatial; ++i) kernel.push_back(c().weights[2 + i]);
  const ops::ConvParams p{kernel, c().stride, ones, ones, ones, 1, true, {}};
  const Shape shape = ops::conv_dst_shape(c().src, p, c().weights[0]);
  const Array dy = rounded(oracle::random_uniform(shape, "diff_dst"));
  const auto op = make(ops::ConvDesc{p, src, weights, any(shape, DType::f32)});
  if (!op) return;
  check_all(*op, shape, x, w, b, dy, oracle::conv_forward(x, w, b, p),
            oracle::conv_backward_weights(x, dy, c().weights, p), oracle::conv_backward_data(dy, w, c().src, p));
}

const std::vector<Bf16Case> bf16_cases{
    {"conv_3d", "blocks of channels", {2, 16, 6, 6, 8}, {32, 16, 3, 3, 3}, {1, 1, 1}},
    {"conv_shallow", "a kernel deeper than src", {1, 16, 2, 4, 4}, {32, 16, 3, 3, 3}, {1, 1, 1}},
    {"conv_first", "4 channels, a rest of filters", {1, 4, 6, 6, 6}, {20, 4, 3, 3, 3}, {1, 1, 1}},
    {"conv_2d_strided", "stride 2", {2, 32, 9, 8}, {16, 32, 3, 3}, {2, 2}},
    {"dense", "", {7, 96}, {40, 96}, {}},
};

INSTANTIATE_TEST_SUITE_P(Bf16, Bf16Test, ::testing::ValuesIn(on_every_context(bf16_cases)), CaseName());

}  // namespace
}  // namespace keelson::testing
