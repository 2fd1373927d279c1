#include <gtest/gtest.h>

#include "engine/layers/layers.hpp"
#include "engine/tune/autotuner.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/networks.hpp"

/// Networks with transposed convolutions, held against the oracle's tape.
namespace keelson::testing {
namespace {

/// An encoder, and a decoder in both conventions.
Graph decoder() {
  Graph g;
  const Var x = g.input("x", {3, 8, 12}), y = g.input("y", {3 * 16 * 24});
  const Var a = relu(conv(x, {.filters = 6, .stride = 2}, "a"));
  const Var b = relu(conv(a, {.filters = 16, .stride = 2}, "b"));
  const Var c = transposed_conv(
      b,
      {.filters = 8, .stride = 2, .padding = Padding::given, .bias = false, .pad_begin = {1, 1}, .output_padding = 1},
      "c");
  const Var d = leaky_relu(transposed_conv(concat({c, a}, 1), {.filters = 5, .stride = 2}, "d"), 0.1f);
  const Var e = transposed_conv(d, {.filters = 3, .stride = 2, .bias_init = Init::constant(0.25f)}, "e");
  g.set_output("prediction", e);
  mse(flatten(e), y);
  return g;
}

double decoder_oracle(oracle::Tape& t, const Array& x, const Array& y, const ops::StepParams& now) {
  const ops::ConvParams half{{3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}, 1, true, {}};
  const ops::TransposedConvParams same{{3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}, {0, 0}, 1, true, {}},
      as_pytorch{{3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1, true, {}};
  const int a = t.eltwise(t.conv(t.input(x), "a", half), {ops::EltwiseKind::relu});
  const int b = t.eltwise(t.conv(a, "b", half), {ops::EltwiseKind::relu});
  const int c = t.transposed_conv(b, "c", as_pytorch);
  const int d = t.eltwise(t.transposed_conv(t.concat({c, a}, 1), "d", same), {ops::EltwiseKind::leaky_relu, 0.1f});
  return t.loss(t.flatten(t.transposed_conv(d, "e", same)), y, Array({x.shape[0]}, 1.0), {ops::LossKind::mse}, now);
}

class TransposedConvPlan : public ::testing::TestWithParam<std::string> {
 protected:
  Context& ctx() { return context(GetParam()); }

  /// Loss and gradients in this precision against the oracle.
  void check(const PlanOptions& options, double tolerance) {
    const Graph g = decoder();
    Parameters parameters(g, ctx(), 1);
    Executor executor(g, parameters, options);
    const Array x = oracle::random_uniform({2, 3, 8, 12}, "x"), y = oracle::random_uniform({2, 3 * 16 * 24}, "y");
    set_input(ctx(), executor, "x", x);
    set_input(ctx(), executor, "y", y);
    ops::StepParams now;
    now.inverse_samples = 0.5f;
    oracle::Tape tape(plain_parameters(parameters));
    const double want_loss = decoder_oracle(tape, x, y, now);
    executor.forward(now);
    executor.backward();
    EXPECT_NEAR(executor.loss(), want_loss, tolerance * want_loss);
    ASSERT_EQ(tape.gradients().size(), parameters.all().size());
    for (const auto& [name, want] : tape.gradients()) {
      const auto got = executor.gradient(name);
      EXPECT_LT(relative_error(Array(want.shape, std::vector<double>(got.begin(), got.end())), want), tolerance)
          << name;
    }
  }
};

TEST_P(TransposedConvPlan, GradientsAgreeWithTheOracle) { check({.batch = 2}, 1e-4); }

TEST_P(TransposedConvPlan, WithoutFusionToo) { check({.batch = 2, .fuse = false}, 1e-4); }

// Values near zero may cross it, and ReLU then drops or passes whole gradients.
TEST_P(TransposedConvPlan, Bf16IsNear) { check({.batch = 2, .precision = Precision::bf16}, 0.15); }

TEST_P(TransposedConvPlan, ExactConvolutionsAreDirectOnes) {
  Graph g;
  const Var x = g.input("x", {32, 16, 16}), y = g.input("y", {32 * 16 * 16});
  mse(flatten(transposed_conv(x, {.filters = 32, .padding = Padding::given, .pad_begin = {1, 1}}, "a")), y);
  const Autotuner::RulesOfThumb rules(ctx().device().autotuner());
  const auto has_winograd = [&](bool exact) {
    ctx().require_exact_convolutions(exact);
    Parameters parameters(g, ctx(), 1);
    const auto rows = Plan(g, parameters, {}).rows();
    ctx().require_exact_convolutions(false);
    return std::any_of(rows.begin(), rows.end(),
                       [](const PlanRow& r) { return r.kernel.find("winograd") != std::string::npos; });
  };
  if (!has_winograd(false)) GTEST_SKIP() << "no such algorithm for transposed convolutions";
  EXPECT_FALSE(has_winograd(true));
}

INSTANTIATE_TEST_SUITE_P(Plan, TransposedConvPlan, ::testing::ValuesIn(network_contexts()),
                         [](const auto& info) { return info.param; });

TEST(TransposedConvLayer, HasPyTorchsParametersAndRefusesWhatDoesNotFit) {
  const Graph g = decoder();
  const auto shape_of = [&](const std::string& name) {
    for (const auto& p : g.parameters())
      if (p.name == name) return p.shape;
    return Shape{};
  };
  EXPECT_EQ(shape_of("c/weights"), (Shape{16, 8, 3, 3}));
  EXPECT_EQ(shape_of("c/bias"), Shape{});
  EXPECT_EQ(shape_of("d/weights"), (Shape{14, 5, 3, 3}));
  EXPECT_EQ(shape_of("d/bias"), (Shape{5}));

  const auto refusal = [](const Shape& sample, const TransposedConvOptions& options) -> std::string {
    Graph one;
    const Var x = one.input("x", sample);
    try {
      transposed_conv(x, options, "up");
    } catch (const InputError& e) {
      return e.what();
    }
    return "nothing is refused";
  };
  const auto has = [](const std::string& text, std::string_view part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(refusal({4}, {}), "up");
  has(refusal({4}, {}), "takes (N, C, spatial...) values");
  has(refusal({4, 5, 5}, {.stride = 2, .padding = Padding::given}), "needs 2 pads");
  has(refusal({4, 5, 5}, {.stride = 2, .padding = Padding::given, .pad_begin = {1, 1}, .output_padding = 2}),
      "output_padding is 2");
  has(refusal({4, 5, 5}, {.filters = 3, .groups = 2}), "2 groups");
  has(refusal({4, 5, 5}, {.kernel = {3, 3, 3}}), "kernel of 3 dims");
}

}  // namespace
}  // namespace keelson::testing
