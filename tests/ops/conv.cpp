#include "engine/ops/conv.hpp"

#include <limits>

#include "tests/ops/conv_cases.hpp"
#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

using ops::Role;
using ops::Verb;

struct Operands {
  explicit Operands(const ConvCase& c)
      : src(oracle::random_uniform(c.src, "src")),
        weights(oracle::random_uniform(c.weights(), "weights", -0.5, 0.5)),
        diff_dst(oracle::random_uniform(oracle::conv_shape(c.src, c.weights(), c.params), "diff_dst")) {
    if (c.params.bias) bias = oracle::random_uniform(Shape{c.filters}, "bias");
    for (std::int64_t i = 0; i < src.elements(); i += 5) src[i] = 0;
    for (std::int64_t i = 2; i < weights.elements(); i += 7) weights[i] = 0;
  }
  Array src, weights, bias, diff_dst;
};

class ConvTest : public CaseTest<ConvCase> {
 protected:
  ops::ConvDesc describe(LayoutChoice choice, bool training) {
    const auto tensor = [&](const Shape& s, bool is_src) -> TensorDesc {
      const bool any = choice == LayoutChoice::any || (choice == LayoutChoice::reader && !is_src);
      if (any) return {s, DType::f32, Layout::any()};
      return {s, DType::f32, choice == LayoutChoice::channels_last ? Layout::channels_last(s) : Layout::plain(s)};
    };
    ops::ConvDesc d;
    d.params = c().params;
    d.src = tensor(c().src, true);
    d.weights = tensor(c().weights(), false);
    d.dst = tensor(ops::conv_dst_shape(c().src, c().params, c().filters), false);
    d.training = training;
    return d;
  }

  Tensor put_for(const ops::Conv& op, Verb v, Role r, const Array& a) { return put(ctx(), a, op.layout(v, r)); }
  Tensor result_of(const ops::Conv& op, Verb v, Role r, const Shape& s) {
    return destination(ctx(), s, op.layout(v, r));
  }
  Tensor put_bias(const Array& bias) { return bias.empty() ? Tensor() : put(ctx(), bias, Layout::plain(bias.shape)); }
  Tensor scratch_for(const ops::Conv& op, Verb v) { return scratch(ctx(), op.scratch_bytes(v)); }

  Tensor forward(ops::Conv& op, const Operands& x, const std::string& what) {
    const auto src = put_for(op, Verb::forward, Role::src, x.src);
    const auto weights = put_for(op, Verb::forward, Role::weights, x.weights);
    const auto bias = put_bias(x.bias);
    const auto dst = result_of(op, Verb::forward, Role::dst, x.diff_dst.shape);
    const auto extra = scratch_for(op, Verb::forward);
    run_forward(what, op, {src, weights, bias, dst, extra});
    return dst;
  }

  Tensor backward_data(ops::Conv& op, const Operands& x, const std::string& what) {
    const auto diff_dst = put_for(op, Verb::backward_data, Role::diff_dst, x.diff_dst);
    const auto weights = put_for(op, Verb::backward_data, Role::weights, x.weights);
    const auto diff_src = result_of(op, Verb::backward_data, Role::diff_src, x.src.shape);
    const auto extra = scratch_for(op, Verb::backward_data);
    run_backward_data(what, op, {diff_dst, weights, diff_src, extra});
    return diff_src;
  }

  void check_backward_weights(ops::Conv& op, const Operands& x, const std::string& what) {
    const auto src = put_for(op, Verb::backward_weights, Role::src, x.src);
    const auto diff_dst = put_for(op, Verb::backward_weights, Role::diff_dst, x.diff_dst);
    const auto diff_weights = result_of(op, Verb::backward_weights, Role::diff_weights, x.weights.shape);
    const auto extra = scratch_for(op, Verb::backward_weights);
    Tensor diff_bias;
    if (c().params.bias) diff_bias = destination(ctx(), x.bias.shape, Layout::plain(x.bias.shape));
    run_backward_weights(what, op, {src, diff_dst, diff_weights, diff_bias, extra});
    check(diff_weights, oracle::conv_backward_weights(x.src, x.diff_dst, x.weights.shape, c().params),
          what + " diff_weights");
    if (c().params.bias) check(diff_bias, oracle::backward_bias(x.diff_dst), what + " diff_bias");
  }

  void check_requested_layouts(const ops::Conv& op, const ops::ConvDesc& d, Verb v,
                               std::vector<std::pair<Role, TensorDesc>> operands) {
    for (const auto& [role, asked] : operands) {
      const Layout got = op.layout(v, role);
      EXPECT_FALSE(got.is_any()) << to_string(v) << " role " << static_cast<int>(role);
      if (!asked.layout.is_any()) {
        EXPECT_EQ(got.describe(asked.shape), asked.layout.describe(asked.shape)) << ops::describe(d);
      }
    }
  }

  /// FLOPs as the header counts them; bytes: every operand once, as it lies in memory (the bias is too small to
  /// matter).
  void check_cost(const ops::Conv& op, const ops::ConvDesc& d) {
    const double flops = 2.0 * static_cast<double>(oracle::conv_count(d.src.shape, d.weights.shape, d.params));
    EXPECT_EQ(ops::conv_flops(d), flops);
    const double least = static_cast<double>(d.src.elements() + d.weights.elements() + d.dst.elements()) * 4;
    for (const Verb v : {Verb::forward, Verb::backward_data, Verb::backward_weights}) {
      EXPECT_EQ(op.cost(v).flops, flops) << to_string(v);
      EXPECT_GE(op.cost(v).bytes, least) << to_string(v);
      EXPECT_LE(op.cost(v).bytes, 260 * least) << to_string(v) << ": more than two dims padded from 1 to 16";
    }
  }
};

constexpr LayoutChoice conv_layouts[] = {LayoutChoice::plain, LayoutChoice::channels_last, LayoutChoice::any,
                                         LayoutChoice::reader};

TEST_P(ConvTest, MatchesOracle) {
  const Operands x(c());
  const Array want = oracle::conv_forward(x.src, x.weights, x.bias, c().params);
  const Array want_diff_src = oracle::conv_backward_data(x.diff_dst, x.weights, c().src, c().params);
  for (const auto choice : conv_layouts) {
    const auto what = fmt::format("{} ({}), {}", c().name, c().about, to_string(choice));
    SCOPED_TRACE(what);
    const auto d = describe(choice, true);
    const auto op = make(d);
    if (!op) continue;
    check_requested_layouts(*op, d, Verb::forward,
                            {{Role::src, d.src}, {Role::weights, d.weights}, {Role::dst, d.dst}});
    check_requested_layouts(*op, d, Verb::backward_data,
                            {{Role::diff_src, d.src}, {Role::weights, d.weights}, {Role::diff_dst, d.dst}});
    check_requested_layouts(*op, d, Verb::backward_weights,
                            {{Role::src, d.src}, {Role::diff_weights, d.weights}, {Role::diff_dst, d.dst}});
    check_cost(*op, d);
    check(forward(*op, x, what + " forward"), want, what + " dst");
    check(backward_data(*op, x, what + " backward_data"), want_diff_src, what + " diff_src");
    check_backward_weights(*op, x, what + " backward_weights");
  }
}

TEST_P(ConvTest, NanReachesExactlyWhatReadsIt) {
  Operands x(c());
  x.src[x.src.elements() / 2] = std::numeric_limits<double>::quiet_NaN();
  x.diff_dst[x.diff_dst.elements() / 2] = std::numeric_limits<double>::quiet_NaN();
  for (const auto choice : {LayoutChoice::plain, LayoutChoice::any}) {
    const auto what = fmt::format("{} with a NaN, {}", c().name, to_string(choice));
    auto d = describe(choice, true);
    d.exact = true;  // Winograd's algorithms hand a NaN to all results of its tile
    const auto op = make(d);
    if (!op) continue;
    check(forward(*op, x, what), oracle::conv_forward(x.src, x.weights, x.bias, c().params), what + ", dst");
    check(backward_data(*op, x, what), oracle::conv_backward_data(x.diff_dst, x.weights, c().src, c().params),
          what + ", diff_src");
  }
}

INSTANTIATE_TEST_SUITE_P(Conv, ConvTest, ::testing::ValuesIn(on_every_context(conv_cases())), CaseName());

class ConvOneCase : public ConvTest {};
INSTANTIATE_TEST_SUITE_P(Conv, ConvOneCase,
                         ::testing::ValuesIn(on_every_context<ConvCase>({conv_case("cosmoflow_first_3d")})),
                         CaseName());

TEST_P(ConvOneCase, InferenceAllowsEveryActivation) {
  const Operands x(c());
  for (const auto kind : {ops::EltwiseKind::gelu, ops::EltwiseKind::silu, ops::EltwiseKind::relu}) {
    auto d = describe(LayoutChoice::any, false);
    d.params.activation = {kind, 0, 0};
    const auto what = "inference with " + to_string(d.params.activation);
    const auto op = make(d);
    if (!op) continue;
    check(forward(*op, x, what), oracle::conv_forward(x.src, x.weights, x.bias, d.params), what);
  }
}

TEST_P(ConvOneCase, FirstLayerNeedsNoBackwardData) {
  const Operands x(c());
  for (const auto choice : conv_layouts) {
    auto d = describe(choice, true);
    d.diff_src = false;
    const auto what = "no diff_src, " + to_string(choice);
    const auto op = make(d);
    if (!op) continue;
    check(forward(*op, x, what), oracle::conv_forward(x.src, x.weights, x.bias, c().params), what);
    check_backward_weights(*op, x, what);
  }
}

TEST_P(ConvOneCase, AddsWhatTheEltwiseOpWould) {
  // conv + activation fused = conv, then the activation: what a plan relies on when it fuses.
  const Operands x(c());
  auto d = describe(LayoutChoice::any, true);
  const auto fused = make(d);
  d.params.activation = {};
  const auto alone = make(d);
  if (!fused || !alone) return;
  const auto dst = forward(*alone, x, "not fused");
  const auto eltwise = make(ops::EltwiseDesc{c().params.activation, dst.desc()});
  if (!eltwise) return;
  eltwise->forward({dst, dst});
  EXPECT_TRUE(close(get(ctx(), forward(*fused, x, "fused")), get(ctx(), dst), "fused against separate activation"));
}

}  // namespace
}  // namespace keelson::testing
