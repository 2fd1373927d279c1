#include <gtest/gtest.h>

#include "engine/layers/layers.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/networks.hpp"

/// Bilinear interpolation, pooling of whole planes and padding at one side, in a network held against the oracle's
/// tape.
namespace keelson::testing {
namespace {

/// Pyramid pooling in small: pixels beside the mean of all, at the size of the input.
Graph pyramid() {
  Graph g;
  const Var x = g.input("x", {3, 8, 12}), y = g.input("y", {22 * 8 * 12});
  const Var a =
      max_pool(relu(conv(x, {.filters = 16}, "a")), {.size = 3, .stride = 2, .pad_begin = {0, 0}, .pad_end = {1, 1}});
  const Var b = conv(max_pool(a, {.size = 1, .stride = 2}), {.filters = 6, .size = 1}, "b");
  const Var mean = resize(global_average_pool(a, "mean"), {.rows = 4, .columns = 6});
  const Var c = resize(b, {.rows = 4, .columns = 6, .grid = ops::ResizeGrid::asymmetric});
  const Var d = resize(concat({c, mean}), {.rows = 8, .columns = 12, .grid = ops::ResizeGrid::align_corners}, "d");
  g.set_output("prediction", d);
  mse(flatten(d), y);
  return g;
}

double pyramid_oracle(oracle::Tape& t, const Array& x, const Array& y, const ops::StepParams& now) {
  using ops::PoolKind, ops::ResizeGrid;
  const auto conv = [&](int v, const char* name, std::int64_t k) {
    return t.conv(v, name, {{k, k}, {1, 1}, {1, 1}, {k / 2, k / 2}, {k / 2, k / 2}, 1, true, {}});
  };
  const int a = t.pool(t.eltwise(conv(t.input(x), "a", 3), {ops::EltwiseKind::relu}),
                       {PoolKind::max, {3, 3}, {2, 2}, {0, 0}, {1, 1}, false});
  const int b = conv(t.pool(a, {PoolKind::max, {1, 1}, {2, 2}, {0, 0}, {0, 0}, false}), "b", 1);
  const int mean = t.pool(a, {PoolKind::average, {4, 6}, {4, 6}, {0, 0}, {0, 0}, false});
  const int both =
      t.concat({t.resize(b, 4, 6, ResizeGrid::asymmetric), t.resize(mean, 4, 6, ResizeGrid::half_pixel)}, 1);
  return t.loss(t.flatten(t.resize(both, 8, 12, ResizeGrid::align_corners)), y, Array({x.shape[0]}, 1.0),
                {ops::LossKind::mse}, now);
}

class ResizePlan : public ::testing::TestWithParam<std::string> {
 protected:
  void check(const PlanOptions& options, double tolerance) {
    Context& ctx = context(GetParam());
    const Graph g = pyramid();
    Parameters parameters(g, ctx, 1);
    Executor executor(g, parameters, options);
    const Array x = oracle::random_uniform({2, 3, 8, 12}, "x"), y = oracle::random_uniform({2, 22 * 8 * 12}, "y");
    set_input(ctx, executor, "x", x);
    set_input(ctx, executor, "y", y);
    const ops::StepParams now{.inverse_samples = 0.5f};
    oracle::Tape tape(plain_parameters(parameters));
    const double want_loss = pyramid_oracle(tape, x, y, now);
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

TEST_P(ResizePlan, GradientsAgreeWithTheOracle) { check({.batch = 2}, 1e-5); }

TEST_P(ResizePlan, Bf16IsNear) { check({.batch = 2, .precision = Precision::bf16}, 0.1); }

INSTANTIATE_TEST_SUITE_P(Plan, ResizePlan, ::testing::ValuesIn(network_contexts()),
                         [](const auto& info) { return info.param; });

TEST(ResizeLayer, RefusesWhatDoesNotFit) {
  const auto refusal = [](auto layer) -> std::string {
    Graph g;
    try {
      layer(g);
    } catch (const InputError& e) {
      return e.what();
    }
    return "nothing is refused";
  };
  const auto has = [](const std::string& text, std::string_view part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(refusal([](Graph& g) { resize(g.input("x", {3, 4, 5, 6}), {.rows = 4, .columns = 4}, "up"); }),
      "takes (N, C, rows, columns) values");
  has(refusal([](Graph& g) { resize(g.input("x", {3, 4, 5}), {.rows = 0, .columns = 4}, "up"); }), "at least 1 x 1");
  has(refusal([](Graph& g) { global_average_pool(g.input("x", {3})); }), "pooling takes");
  has(refusal([](Graph& g) { average_pool(g.input("x", {3, 4, 5}), {.kernel = {2}}, "pool"); }), "pool");
}

}  // namespace
}  // namespace keelson::testing
