#include "engine/plan/distribution.hpp"

#include <gtest/gtest.h>

#include "engine/execute/executor.hpp"
#include "engine/layers/layers.hpp"
#include "engine/optim/sgd.hpp"
#include "tests/support/contexts.hpp"

/// Distributions, and plans for one rank of a grid, made without the other ranks.
namespace keelson::testing {
namespace {

using Axis = ProcessGrid::Axis;

TEST(DistributionOfValues, SaysOverWhichAxesValuesAreSums) {
  EXPECT_EQ(to_string(Distribution::replicated()), "replicated");
  EXPECT_FALSE(Distribution::replicated().is_partial());
  const auto sum = Distribution::partial();
  EXPECT_EQ(to_string(sum), "partial over data and space and channel");
  EXPECT_TRUE(sum.partial_axes.contains(Axis::space));
  EXPECT_TRUE(sum.partial_axes.contains(Axis::channel));
  EXPECT_EQ(to_string(Distribution::partial(Axis::data)), "partial over data");
  EXPECT_NE(sum, Distribution::partial(Axis::data));
  EXPECT_EQ(to_string(Distribution::partial_in_groups(2)), "partial over data and space and channel in groups of 2");
}

Graph normalized_values() {
  Graph g;
  const Var h = batch_norm(dense(g.input("x", {8}), 4, "first"), {.ranks = 1}, "bn");
  mse(dense(h, 2, "second"), g.input("y", {2}));
  return g;
}

struct PlanOfRank {
  PlanOfRank(const ProcessGrid::Extents& extents, int rank, PlanOptions options = {.batch = 2},
             Graph network = normalized_values())
      : grid(extents, rank), graph(std::move(network)), parameters(graph, context(network_contexts().back()), 1) {
    options.grid = &grid;
    options.optimizer = &sgd;
    plan.emplace(graph, parameters, options);
  }
  std::vector<std::string> allreduces() const {
    std::vector<std::string> nodes;
    for (const PlanRow& row : plan->rows())
      if (row.op == "allreduce") nodes.push_back(row.node);
    return nodes;
  }
  ProcessGrid grid;
  Graph graph;
  Parameters parameters;
  Sgd sgd;
  std::optional<Plan> plan;
};

TEST(PlanWithoutRanks, SumsOverReplicasAndTheirRanks) {
  using Nodes = std::vector<std::string>;
  // sums of bn, for the running statistics and for a replica; diff_sums of bn; the gradients; the loss
  EXPECT_EQ(PlanOfRank({.data = 1}, 0).allreduces(), Nodes());
  EXPECT_EQ(PlanOfRank({.data = 2}, 1).allreduces().size(), 3U) << "a replica of one rank has its own statistics";
  const auto of_replicas = PlanOfRank({.data = 2, .space = 2}, 1).allreduces();
  EXPECT_EQ(std::count(of_replicas.begin(), of_replicas.end(), "bn/sums of the group"), 1);
  EXPECT_EQ(of_replicas.size(), 5U) << "the ranks of a replica add up their sums";
  EXPECT_EQ(PlanOfRank({.data = 1, .space = 2}, 1).allreduces().size(), 4U);
}

TEST(PlanWithoutRanks, AllRanksHaveOneStructure) {
  const ProcessGrid::Extents extents{.data = 2, .space = 2};
  const PlanOfRank first(extents, 0);
  for (int rank = 1; rank < 4; ++rank) {
    const PlanOfRank other(extents, rank);
    EXPECT_EQ(other.plan->structure(), first.plan->structure()) << rank;
    EXPECT_EQ(other.plan->hash(), first.plan->hash()) << rank;
  }
  const PlanOfRank larger(extents, 0, {.batch = 3});
  EXPECT_EQ(larger.plan->structure(), first.plan->structure()) << "samples of a step are no part of the structure";
  EXPECT_NE(larger.plan->hash(), first.plan->hash());
}

TEST(PlanWithoutRanks, TheStructureHasNodesGradientsAndMessages) {
  const ProcessGrid::Extents extents{.data = 2, .space = 2};
  const auto structure = PlanOfRank(extents, 0).plan->structure();
  EXPECT_NE(PlanOfRank({.data = 4}, 0).plan->structure(), structure) << "no sum within a replica";
  PlanOptions options{.batch = 2};
  options.exchange.bucket_bytes = 64;
  EXPECT_NE(PlanOfRank(extents, 0, options).plan->structure(), structure);
  Graph wider;
  const Var h = batch_norm(dense(wider.input("x", {9}), 4, "first"), {.ranks = 1}, "bn");
  mse(dense(h, 2, "second"), wider.input("y", {2}));
  EXPECT_NE(PlanOfRank(extents, 0, {.batch = 2}, std::move(wider)).plan->structure(), structure);
}

TEST(PlanWithoutRanks, CannotRunWhereItCommunicates) {
  PlanOfRank alone({.data = 1}, 0), one_of_two({.data = 1, .space = 2}, 0);
  EXPECT_NO_THROW(Executor(*alone.plan, alone.parameters));
  try {
    const Executor executor(*one_of_two.plan, one_of_two.parameters);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("data 1 x space 2: it was made without a communicator"), std::string::npos)
        << e.what();
  }
}

TEST(PlanWithoutRanks, ReproducibleSumsRefuseReplicasOfSeveralRanks) {
  PlanOptions options{.batch = 2};
  options.exchange.reproducible = true;
  Graph g;
  mse(dense(g.input("x", {8}), 2), g.input("y", {2}));
  try {
    const PlanOfRank made({.data = 1, .space = 2}, 0, options, std::move(g));
    FAIL() << "accepted";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("on 2 ranks to a replica (--spatial)"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace keelson::testing
