#include "engine/plan/recompute.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/layers/layers.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/networks.hpp"

/// Plans that make cheap values again, held against plans that keep them.
namespace keelson::testing {
namespace {

/// Dense blocks with dropout, a residual connection, and what reads a value in another layout.
Graph dense_blocks(bool batch_norms) {
  Graph g;
  const Var x = g.input("x", {3, 16, 12}), y = g.input("y", {2});
  const auto normal = [&](Var v) { return batch_norms ? batch_norm(v) : v; };
  Var v = conv(x, {.filters = 8, .bias = false}, "first");
  v = tanh(normal(v));
  for (int block = 0; block < 2; ++block) {
    for (int layer = 0; layer < 3; ++layer) {
      const Var made = conv(v, {.filters = 8}, fmt::format("block{}_{}", block, layer));
      v = concat({v, dropout(gelu(normal(made)), 0.25f)});
    }
    v = conv(v, {.filters = 16, .stride = 2}, fmt::format("transition{}", block));
    v = tanh(normal(v)) + v;
  }
  mse(dense(flatten(v), 2, "last"), y);
  return g;
}

struct Outcome {
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> values;
  std::size_t arena = 0, lower_bound = 0;
  int again = 0;  ///< calls
};

Outcome train(Context& ctx, const Graph& graph, bool recompute, bool by_sample) {
  const Adam adam;
  Parameters parameters(graph, ctx, 1);
  PlanOptions options{.batch = 2, .optimizer = &adam, .recompute = recompute};
  options.exchange.reproducible = by_sample;
  Executor executor(graph, parameters, options);
  Outcome o;
  for (std::uint64_t step = 0; step < 3; ++step) {
    const ops::StepParams now{.step = step, .inverse_samples = 0.5f, .learning_rate = 0.01f};
    const auto samples = options.micro_batch_size();
    for (std::int64_t part = 0; part < options.micro_batches(); ++part) {
      set_input(ctx, executor, "x", oracle::random_uniform({samples, 3, 16, 12}, fmt::format("x{}.{}", step, part)));
      set_input(ctx, executor, "y", oracle::random_uniform({samples, 2}, fmt::format("y{}.{}", step, part)));
      executor.forward(now, part);
      executor.backward();
    }
    executor.update();
    o.losses.push_back(executor.loss());
  }
  for (const auto& p : parameters.all()) o.values[p.name] = parameters.get(p);
  o.arena = executor.plan().arena_bytes();
  o.lower_bound = executor.plan().arena_lower_bound();
  for (const auto& row : executor.plan().rows()) o.again += row.op.ends_with(" again");
  return o;
}

class Recompute : public ::testing::TestWithParam<std::string> {};

TEST_P(Recompute, LeavesEveryBitAsItIsInLessMemory) {
  for (const bool batch_norms : {true, false})
    for (const bool by_sample : {false, true}) {
      if (batch_norms && by_sample) continue;  // refused: samples are mixed
      const Graph graph = dense_blocks(batch_norms);
      const Outcome kept = train(context(GetParam()), graph, false, by_sample);
      const Outcome again = train(context(GetParam()), graph, true, by_sample);
      EXPECT_EQ(kept.losses, again.losses);
      EXPECT_EQ(kept.values, again.values);
      EXPECT_EQ(kept.again, 0);
      EXPECT_GT(again.again, 8);
      // How much less is the backend's matter: in such small networks, scratch memory is a large part of the most, and
      // without batch norms it may be the most.
      EXPECT_LE(again.lower_bound, kept.lower_bound) << "batch norms: " << batch_norms;
      EXPECT_LE(again.arena, kept.arena);
      if (!batch_norms) continue;
      EXPECT_LT(again.lower_bound, kept.lower_bound);
      EXPECT_LT(again.arena, kept.arena);
    }
}

INSTANTIATE_TEST_SUITE_P(Plan, Recompute, ::testing::ValuesIn(network_contexts()),
                         [](const auto& info) { return info.param; });

TEST(RecomputePlan, HasNothingToMakeAgainInEvaluation) {
  Context& ctx = context(network_contexts().front());
  const Graph graph = dense_blocks(true);
  Parameters parameters(graph, ctx, 1);
  const Plan plan(graph, parameters, {.batch = 2, .training = false, .recompute = true});
  for (const auto& row : plan.rows()) EXPECT_FALSE(row.op.ends_with(" again")) << row.node;
}

}  // namespace
}  // namespace keelson::testing
