#include "engine/ops/eltwise.hpp"

#include <limits>

#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

using ops::EltwiseKind;
using ops::Role;
using ops::Verb;

struct EltwiseCase {
  std::string name, about;
  ops::EltwiseParams params;
  bool only_positive = false;  ///< defined for positive arguments
  bool saturates = true;       ///< whether the result for 100 is no larger than some hundreds
};

std::vector<EltwiseCase> eltwise_cases() {
  return {
      {"identity", "", {EltwiseKind::identity, 0, 0}},
      {"relu", "", {EltwiseKind::relu, 0, 0}},
      {"leaky_relu", "CosmoFlow's 0.3", {EltwiseKind::leaky_relu, 0.3f, 0}},
      {"leaky_relu_zero", "derivative 0 at and below 0", {EltwiseKind::leaky_relu, 0, 0}},
      {"leaky_relu_negative", "derivative needs src", {EltwiseKind::leaky_relu, -0.2f, 0}},
      {"tanh", "", {EltwiseKind::tanh, 0, 0}},
      {"sigmoid", "", {EltwiseKind::sigmoid, 0, 0}},
      {"gelu", "erf, not the tanh formula", {EltwiseKind::gelu, 0, 0}},
      {"silu", "", {EltwiseKind::silu, 0, 0}},
      {"elu", "", {EltwiseKind::elu, 1, 0}},
      {"elu_half", "the derivative jumps at 0", {EltwiseKind::elu, 0.5f, 0}},
      {"elu_negative", "derivative needs src", {EltwiseKind::elu, -0.5f, 0}},
      {"softplus", "padding must stay zero", {EltwiseKind::softplus, 0, 0}},
      {"linear", "x 1.2, as after CosmoFlow's tanh", {EltwiseKind::linear, 1.2f, 0}},
      {"linear_shifted", "padding must stay zero", {EltwiseKind::linear, -2, 3}},
      {"abs", "derivative 0 at 0", {EltwiseKind::abs}},
      {"exp", "padding must stay zero", {EltwiseKind::exp}, false, false},
      {"log", "padding must stay zero", {EltwiseKind::log}, true},
      {"square", "", {EltwiseKind::power, 2}, false, false},
      {"cube", "of negative numbers, too", {EltwiseKind::power, 3}, false, false},
      {"square_root", "", {EltwiseKind::power, 0.5f}, true},
      {"reciprocal", "padding must stay zero", {EltwiseKind::power, -1}, true},
      {"power_zero", "1, with the derivative 0", {EltwiseKind::power, 0}},
      {"power_fraction", "", {EltwiseKind::power, 1.75f}, true, false},
  };
}

const Shape eltwise_shapes[] = {{1}, {3, 5}, {2, 3, 5, 7}, {1, 17, 3, 4, 5}, {2, 16, 2, 3, 4}, {1, 16, 11, 12, 13}};

class EltwiseTest : public CaseTest<EltwiseCase> {
 protected:
  template <class Check>
  void on_every_layout(Check check) {
    for (const auto& shape : eltwise_shapes)
      for (const auto choice : {LayoutChoice::plain, LayoutChoice::channels_last, LayoutChoice::producer}) {
        const auto layout = layout_of(ctx(), choice, shape);
        if (!layout) continue;
        const auto op = make(ops::EltwiseDesc{c().params, {shape, DType::f32, *layout}});
        if (!op) continue;
        const auto what = fmt::format("{} {} {}", c().name, to_string(shape), to_string(choice));
        SCOPED_TRACE(what);
        check(*op, shape, *layout, what);
      }
  }

  /// Values from -6 to 6 with exact zeros (and one -0) among them; only_positive: from 0.25 to 6.
  Array awkward(const Shape& shape) const {
    if (c().only_positive) return oracle::random_uniform(shape, "x", 0.25, 6);
    Array x = oracle::random_uniform(shape, "x", -6, 6);
    for (std::int64_t i = 1; i < x.elements(); i += 4) x[i] = 0;
    if (x.elements() > 5) x[5] = -0.0;
    return x;
  }
};

TEST_P(EltwiseTest, MatchesOracle) {
  on_every_layout([&](ops::Eltwise& op, const Shape& shape, const Layout& layout, const std::string& what) {
    EXPECT_EQ(op.layout(Verb::forward, Role::dst), layout);
    EXPECT_EQ(op.layout(Verb::backward_data, Role::diff_src), layout);
    const Array x = awkward(shape), dy = oracle::random_uniform(shape, "dy");
    const auto src = put(ctx(), x, layout), dst = destination(ctx(), shape, layout);
    run_forward(what, op, {src, dst});
    check(dst, oracle::eltwise_forward(x, c().params), what + " dst");

    const auto diff_dst = put(ctx(), dy, layout), diff_src = destination(ctx(), shape, layout);
    const auto saved = ops::derivative_from_dst(c().params) ? dst : src;
    run_backward_data(what, op, {diff_dst, saved, diff_src});
    check(diff_src, oracle::eltwise_backward(dy, x, c().params), what + " diff_src");
    EXPECT_GE(op.cost(Verb::forward).bytes, 2.0 * static_cast<double>(src.elements()) * 4);
  });
}

TEST_P(EltwiseTest, InPlace) {
  on_every_layout([&](ops::Eltwise& op, const Shape& shape, const Layout& layout, const std::string& what) {
    const Array x = awkward(shape), dy = oracle::random_uniform(shape, "dy");
    const auto src = put(ctx(), x, layout), both = put(ctx(), x, layout);
    op.forward({both, both});
    check(both, oracle::eltwise_forward(x, c().params), what + " dst = src");
    const auto diff = put(ctx(), dy, layout);
    op.backward_data({diff, ops::derivative_from_dst(c().params) ? both : src, diff});
    check(diff, oracle::eltwise_backward(dy, x, c().params), what + " diff_src = diff_dst");
    if (layout.is_opaque()) {
      EXPECT_EQ(dirty_padding(ctx(), both), 0) << what;
      EXPECT_EQ(dirty_padding(ctx(), diff), 0) << what;
    }
  });
}

TEST_P(EltwiseTest, NanStaysNan) {
  on_every_layout([&](ops::Eltwise& op, const Shape& shape, const Layout& layout, const std::string& what) {
    Array x = awkward(shape), dy = oracle::random_uniform(shape, "dy");
    x[x.elements() / 2] = std::numeric_limits<double>::quiet_NaN();
    const auto src = put(ctx(), x, layout), dst = destination(ctx(), shape, layout);
    op.forward({src, dst});
    // oneDNN's reference sigmoid turns NaN into 0. It is taken for padded blocked layouts only, which nothing else
    // reads.
    const bool known =
        c().params.kind == EltwiseKind::sigmoid && op.name(Verb::forward).find("ref") != std::string::npos;
    if (!known) check(dst, oracle::eltwise_forward(x, c().params), what + " NaN in src");
    // In diff_dst, at an element whose derivative is not 0.
    x = Array(shape, 0.5);
    dy[dy.elements() / 2] = std::numeric_limits<double>::quiet_NaN();
    const auto diff_dst = put(ctx(), dy, layout), diff_src = destination(ctx(), shape, layout);
    const auto saved =
        put(ctx(), ops::derivative_from_dst(c().params) ? oracle::eltwise_forward(x, c().params) : x, layout);
    op.backward_data({diff_dst, saved, diff_src});
    check(diff_src, oracle::eltwise_backward(dy, x, c().params), what + " NaN in diff_dst");
  });
}

TEST_P(EltwiseTest, LargeArgumentsSaturate) {
  if (!c().saturates) GTEST_SKIP() << "the results are as large as they are";
  on_every_layout([&](ops::Eltwise& op, const Shape& shape, const Layout& layout, const std::string& what) {
    Array x(shape);
    for (std::int64_t i = 0; i < x.elements(); ++i)
      x[i] = (i % 2 || c().only_positive ? 1 : -1) * (i % 3 ? 100.0 : 30.0);
    x[0] = 0.5;  // sets the scale of the comparison
    const auto src = put(ctx(), x, layout), dst = destination(ctx(), shape, layout),
               diff = put(ctx(), Array(shape, 1), layout);
    op.forward({src, dst});
    check(dst, oracle::eltwise_forward(x, c().params), what + " large src");
    op.backward_data({diff, ops::derivative_from_dst(c().params) ? dst : src, diff});
    check(diff, oracle::eltwise_backward(Array(shape, 1), x, c().params), what + " derivative at large src");
  });
}

INSTANTIATE_TEST_SUITE_P(Eltwise, EltwiseTest, ::testing::ValuesIn(on_every_context(eltwise_cases())), CaseName());

TEST(Eltwise, WhoseDerivativeDstTells) {
  EXPECT_TRUE(ops::derivative_from_dst({EltwiseKind::leaky_relu, 0.3f, 0}));
  EXPECT_FALSE(ops::derivative_from_dst({EltwiseKind::leaky_relu, -0.3f, 0}));
  EXPECT_FALSE(ops::derivative_from_dst({EltwiseKind::gelu, 0, 0}));
  EXPECT_FALSE(ops::derivative_from_dst({EltwiseKind::silu, 0, 0}));
  EXPECT_FALSE(ops::derivative_from_dst({EltwiseKind::softplus, 0, 0}));
  EXPECT_TRUE(ops::derivative_from_dst({EltwiseKind::tanh, 0, 0}));
  EXPECT_TRUE(ops::derivative_from_dst({EltwiseKind::exp}));
  for (const auto kind : {EltwiseKind::abs, EltwiseKind::log, EltwiseKind::power})
    EXPECT_FALSE(ops::derivative_from_dst({kind, 2}));
  EXPECT_EQ(to_string(ops::EltwiseParams{EltwiseKind::leaky_relu, 0.3f, 0}), "leaky_relu(0.3)");
}

}  // namespace
}  // namespace keelson::testing
