#include "engine/plan/stage_parts.hpp"

#include <gtest/gtest.h>

#include "engine/base/error.hpp"
#include "engine/layers/layers.hpp"
#include "engine/optim/adam.hpp"
#include "engine/plan/plan.hpp"
#include "tests/support/contexts.hpp"

/// Plans of one rank along the axis stage, made without the others.
namespace keelson::testing {
namespace {

Graph four_dense_layers() {
  Graph g;
  Var x = g.input("x", {64});
  for (const std::int64_t units : {32, 16, 32}) x = relu(dense(x, units, fmt::format("dense{}", g.nodes().size())));
  x = dense(x, 3, "head");
  g.set_output("prediction", x);
  mse(x, g.input("y", {3}));
  return g;
}

struct PlanOfStage {
  PlanOfStage(const Graph& g, int stages, int stage, PlanOptions options = {})
      : grid({.data = 1, .stage = stages}, stage), parameters(g, context(network_contexts().back()), 1) {
    options.batch = 8;
    options.micro_batch_count = 4;
    options.grid = &grid;
    if (options.training) options.optimizer = &adam;
    plan.emplace(g, parameters, options);
  }
  std::size_t bytes(const std::string& purpose) const {
    for (const auto& [name, bytes] : plan->memory())
      if (name == purpose) return bytes;
    ADD_FAILURE() << purpose;
    return 0;
  }
  Adam adam;
  ProcessGrid grid;
  Parameters parameters;
  std::optional<Plan> plan;
};

std::string words(const std::vector<Pass>& passes) {
  std::string text;
  for (const Pass& p : passes) text += fmt::format("{}{} ", p.backward ? 'B' : 'F', p.micro_batch);
  return text;
}

/// Narayanan et al. 2019, figure 4.
TEST(PlansOfStages, RunOneForwardOneBackward) {
  const Graph g = four_dense_layers();
  EXPECT_EQ(words(PlanOfStage(g, 2, 0).plan->passes()), "F0 F1 B0 F2 B1 F3 B2 B3 ");
  EXPECT_EQ(words(PlanOfStage(g, 2, 1).plan->passes()), "F0 B0 F1 B1 F2 B2 F3 B3 ");
  EXPECT_EQ(words(PlanOfStage(g, 4, 1).plan->passes()), "F0 F1 F2 B0 F3 B1 B2 B3 ");
  EXPECT_EQ(PlanOfStage(g, 4, 0).plan->in_flight(), 4);
  EXPECT_EQ(PlanOfStage(g, 8, 0).plan->in_flight(), 4) << "no more than there are";
  PlanOptions inference;
  inference.training = false;
  EXPECT_EQ(words(PlanOfStage(g, 2, 0, inference).plan->passes()), "F0 F1 F2 F3 ");
}

TEST(PlansOfStages, HaveEachParameterOnce) {
  const Graph g = four_dense_layers();
  for (const int stages : {2, 3, 4}) {
    std::size_t parameters = 0, moments = 0;
    for (int stage = 0; stage < stages; ++stage) {
      const PlanOfStage p(g, stages, stage);
      parameters += p.bytes("parameters");
      moments += p.bytes("optimizer state");
    }
    const auto whole = static_cast<std::size_t>(g.parameter_count()) * sizeof(float);
    EXPECT_EQ(parameters, whole) << stages;
    EXPECT_EQ(moments, 2 * whole) << stages;
  }
}

/// Each micro-batch in flight has values of its own.
TEST(PlansOfStages, TellTheMemoryOfAllMicroBatchesInFlight) {
  const Graph g = four_dense_layers();
  const PlanOfStage first(g, 2, 0), last(g, 2, 1);
  EXPECT_EQ(first.bytes("activations"), 2 * first.plan->arena_bytes());
  EXPECT_EQ(last.bytes("activations"), last.plan->arena_bytes());
}

TEST(PlansOfStages, BeginWhereTheyAreTold) {
  const Graph g = four_dense_layers();
  PlanOptions o;
  o.stage_starts = {"head"};
  for (const bool training : {true, false}) {  // which fuse other nodes
    o.training = training;
    const PlanOfStage p(g, 2, 1, o);
    for (const Parameter& each : p.parameters.all())
      EXPECT_EQ(static_cast<bool>(each.value), each.name.starts_with("head/")) << each.name;
  }
  const auto refusal = [&](std::vector<std::string> starts) {
    PlanOptions wrong;
    wrong.stage_starts = std::move(starts);
    try {
      const PlanOfStage p(g, 2, 0, wrong);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal({"tail"}).find("stage 2 begins at the node tail, which the network does not have"),
            std::string::npos)
      << refusal({"tail"});
  EXPECT_NE(refusal({"dense1", "head"}).find("2 stages begin at 2 nodes"), std::string::npos);
}

TEST(PlansOfStages, KeepSharedParametersTogether) {
  Graph g;
  Var x = relu(dense(g.input("x", {16}), 16, "dense1"));
  x = g.add(g.nodes()[static_cast<std::size_t>(g.nodes().size() - 2)].layer, {x}, "again",
            {{"weights", "dense1/weights"}});
  mse(x, g.input("y", {16}));
  PlanOptions o;
  o.stage_starts = {"again"};
  try {
    const PlanOfStage p(g, 2, 0, o);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("dense1/weights belongs to layers of stages 1 and 2"), std::string::npos)
        << error.what();
  }
}

TEST(PlansOfStages, AreAsEqualAsPossible) {
  EXPECT_EQ(shortest_longest({1, 1, 1, 1}, 2), (std::vector<std::size_t>{2, 4}));
  EXPECT_EQ(shortest_longest({5, 1, 1, 1}, 2), (std::vector<std::size_t>{1, 4}));
  EXPECT_EQ(shortest_longest({1, 2, 3, 4, 5}, 3), (std::vector<std::size_t>{3, 4, 5}));
  EXPECT_EQ(shortest_longest({0, 0, 7}, 3), (std::vector<std::size_t>{1, 2, 3})) << "no stage is empty";
}

}  // namespace
}  // namespace keelson::testing
