#include "engine/execute/executor.hpp"

#include <gtest/gtest.h>

#include "engine/base/error.hpp"
#include "engine/layers/layers.hpp"
#include "engine/optim/sgd.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/networks.hpp"

namespace keelson::testing {
namespace {

/// Small networks that differ in width; conv, dropout (which depends on the step) and a loss.
Graph small(std::int64_t filters) {
  Graph g;
  const Var x = g.input("x", {3, 8, 8}), y = g.input("y", {2});
  const Var z = max_pool(relu(conv(x, {.filters = filters}, "conv")), 2);
  const Var out = dense(dropout(flatten(z), 0.25f, "drop"), 2, "out");
  g.set_output("prediction", out);
  mse(out, y);
  return g;
}

Sgd with_momentum() {
  Sgd o;
  o.momentum = 0.9f;
  return o;
}

class ExecutorTest : public ::testing::TestWithParam<std::string> {
 protected:
  Context& ctx() { return context(GetParam()); }

  /// One training step, number `step`, on data of its own.
  double step(Executor& executor, int step) {
    set_input(ctx(), executor, "x", oracle::random_uniform({4, 3, 8, 8}, fmt::format("x{}", step)));
    set_input(ctx(), executor, "y", oracle::random_uniform({4, 2}, fmt::format("y{}", step)));
    ops::StepParams params;
    params.seed = 3;
    params.step = static_cast<std::uint64_t>(step);
    params.inverse_samples = 0.25f;
    params.learning_rate = 0.05f;
    executor.forward(params);
    executor.backward();
    executor.update();
    return executor.loss();
  }

  static constexpr int steps = 4;
  const Sgd optimizer = with_momentum();
  const PlanOptions training{.batch = 4, .optimizer = &optimizer};
};

TEST_P(ExecutorTest, ExecutorsOfDifferentGraphsTakeTurnsAsIfAlone) {
  const Graph a = small(4), b = small(12);
  std::vector<double> alone[2], in_turn[2];
  for (int i = 0; i < 2; ++i) {
    Parameters parameters(i ? b : a, ctx(), 1);
    Executor executor(i ? b : a, parameters, training);
    for (int s = 0; s < steps; ++s) alone[i].push_back(step(executor, s));
  }
  Parameters first(a, ctx(), 1), second(b, ctx(), 1);
  const Plan plans[2] = {{a, first, training}, {b, second, training}};
  const auto arena = std::make_shared<Arena>(ctx());
  Executor executors[2] = {{plans[0], first, {arena}}, {plans[1], second, {arena}}};
  for (int s = 0; s < steps; ++s)
    for (int i = 0; i < 2; ++i) in_turn[i].push_back(step(executors[i], s));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(in_turn[i], alone[i]);
}

TEST_P(ExecutorTest, MembersOfAnEnsembleShareAPlanAndAnArena) {
  const Graph g = small(4);
  Parameters model(g, ctx(), 0);
  const Plan plan(g, model, training);
  const auto arena = std::make_shared<Arena>(ctx());
  constexpr int members = 64;
  std::vector<std::unique_ptr<Parameters>> parameters;
  std::vector<std::unique_ptr<Executor>> executors;
  for (int m = 0; m < members; ++m) {
    parameters.push_back(std::make_unique<Parameters>(g, ctx(), static_cast<std::uint64_t>(m)));
    executors.push_back(std::make_unique<Executor>(plan, *parameters.back(), ExecutorOptions{arena}));
  }
  EXPECT_EQ(arena->bytes(), plan.arena_bytes()) << "one for all";
  std::vector<std::vector<double>> losses(members);
  for (int s = 0; s < 2; ++s)
    for (int m = 0; m < members; ++m) losses[m].push_back(step(*executors[m], s));
  for (const int m : {0, 1, 63}) {
    Parameters own(g, ctx(), static_cast<std::uint64_t>(m));
    Executor alone(g, own, training);
    for (int s = 0; s < 2; ++s) EXPECT_EQ(step(alone, s), losses[m][s]) << "member " << m;
  }
  EXPECT_NE(losses[0], losses[1]);
}

TEST_P(ExecutorTest, MicroBatchesTakeTurnsOnTheSameParameters) {
  const Graph g = small(4);
  Parameters parameters(g, ctx(), 1);
  const Plan plan(g, parameters, {.batch = 4});
  Executor one(plan, parameters), two(plan, parameters);
  const auto x = [](int i) { return oracle::random_uniform({4, 3, 8, 8}, fmt::format("x{}", i)); };
  const auto y = [](int i) { return oracle::random_uniform({4, 2}, fmt::format("y{}", i)); };
  std::vector<std::vector<float>> gradients;
  for (auto [executor, i] : {std::pair{&one, 0}, {&two, 1}, {&one, 0}}) {
    set_input(ctx(), *executor, "x", x(i));
    set_input(ctx(), *executor, "y", y(i));
    executor->forward({});
    executor->backward();
    gradients.push_back(executor->gradient("conv/weights"));
  }
  EXPECT_EQ(gradients[0], gradients[2]);
  EXPECT_NE(gradients[0], gradients[1]);
  EXPECT_EQ(two.gradient("conv/weights"), gradients[1]) << "each keeps its own";
  EXPECT_TRUE(two.has_gradient("conv/weights"));
  EXPECT_FALSE(two.has_gradient("x"));
}

TEST_P(ExecutorTest, RefusesParametersThatLieOtherwise) {
  const Graph g = small(4), other = small(8);
  Parameters parameters(g, ctx(), 1), foreign(other, ctx(), 1);
  const Plan plan(g, parameters, {.batch = 4}), materialise(other, foreign, {.batch = 4});
  try {
    const Executor executor(plan, foreign);
    FAIL() << "parameters of another network";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("the parameter conv/weights is 8x3x3x3 f32"), std::string::npos) << e.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Contexts, ExecutorTest, ::testing::ValuesIn(network_contexts()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace keelson::testing
