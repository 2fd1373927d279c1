#include "engine/plan/channel_layers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>

#include "engine/layers/layers.hpp"
#include "engine/optim/sgd.hpp"
#include "engine/plan/channel_parts.hpp"
#include "nets/cosmoflow/cosmoflow.hpp"
#include "nets/registry.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/environment_variable.hpp"

/// Deep layers that the ranks along space compute by channels, in plans that are made without the other ranks.
namespace keelson::testing {
namespace {

using Names = std::vector<std::string>;

Sgd sgd_with_momentum() {
  Sgd o;
  o.momentum = 0.9f;
  return o;
}

double plan_bytes(const Plan& plan, const std::string& purpose = "") {
  double bytes = 0;
  for (const auto& [name, of] : plan.memory())
    if (purpose.empty() || name == purpose) bytes += static_cast<double>(of);
  return bytes;
}

TEST(ChannelLayers, AreThoseWhoseWeightsOutweighTheirValues) {
  EXPECT_EQ(channel_layers(nets::cosmoflow_mlperf({.size = 64}), 2), (Names{"conv4", "conv5", "dense1"}));
  EXPECT_EQ(channel_layers(nets::cosmoflow_mlperf({.size = 128}), 2), (Names{"conv5", "dense1"}));
  EXPECT_EQ(channel_layers(nets::cosmoflow_mlperf({.size = 256}), 2), (Names{"conv5", "conv6", "dense1"}));
  EXPECT_EQ(channel_layers(nets::cosmoflow_mlperf({.size = 512}), 2), (Names{"conv6", "conv7", "dense1"}));
  EXPECT_EQ(channel_layers(nets::cosmoflow_mlperf({.size = 128}), 32), (Names{"conv5", "dense1"}));
  EXPECT_EQ(channel_layers(nets::cosmoflow_mlperf({.size = 128}), 128), (Names{"conv5"}))
      << "dense1 has 128 units: one for each rank";
  for (const auto& net : nets::networks_of_family("climate-"))
    EXPECT_EQ(channel_layers(net.make({}, net.published_sample), 2), Names{})
        << net.name << ": behind the deep layers are large values";
}

TEST(ChannelLayers, ReadNoInputAndShareNoParameters) {
  Graph first;
  mse(dense(relu(dense(first.input("x", {16}), 8192, "d1")), 3, "d2"), first.input("y", {3}));
  EXPECT_EQ(channel_layers(first, 2), Names{}) << "d1 reads the input";
  Graph tied;
  const Var x = relu(dense(tied.input("x", {4}), 300, "d1"));
  const Var hidden = relu(dense(x, 300, "d2"));
  mse(dense(dense(hidden, {.features = 300, .weights_of = "d2"}, "d3"), 300, "d4"), tied.input("y", {300}));
  EXPECT_EQ(channel_layers(tied, 2), Names{"d4"});
}

TEST(ChannelLayers, AreNoneWhereRanksKeepWholeParameters) {
  const Graph g = nets::cosmoflow_mlperf({.size = 64});
  const ProcessGrid grid({.data = 1, .space = 2}, 0), alone({.data = 2}, 0);
  EXPECT_EQ(channel_layers(g, {.grid = &grid}).size(), 3U);
  EXPECT_EQ(channel_layers(g, {.training = false, .grid = &grid}).size(), 3U);
  EXPECT_TRUE(channel_layers(g, {.grid = &alone}).empty());
  EXPECT_TRUE(channel_layers(g, PlanOptions()).empty());
  EXPECT_TRUE(channel_layers(g, {.grid = &grid, .whole_parameters = true}).empty());
  EXPECT_TRUE(channel_layers(g, {.training = false, .grid = &grid, .whole_parameters = true}).empty());
  EXPECT_TRUE(channel_layers(g, {.lag = true, .grid = &grid}).empty());
  PlanOptions shards{.grid = &grid};
  shards.exchange.shards = OptimizerShards::moments;
  EXPECT_TRUE(channel_layers(g, shards).empty());
}

SpatialParts parts_of_rank(const Graph& g, const ProcessGrid& grid, bool training = true, std::int64_t batch = 1) {
  const PlanOptions options{.batch = batch, .training = training, .grid = &grid};
  return channel_parts(g, fuse(g, options), options);
}

/// Before the first of the layers all ranks gather the value once; behind it, the channels that others read.
TEST(ChannelLayers, GatherTheValueOnce) {
  const Graph g = nets::cosmoflow_mlperf({.size = 128});
  for (const int columns : {1, 2})
    for (int rank = 0; rank < 4; ++rank) {
      const ProcessGrid grid({.data = 1, .space = 4, .columns = columns}, rank);
      const SpatialParts parts = parts_of_rank(g, grid);
      EXPECT_TRUE(parts.alike);
      EXPECT_EQ(parts.channel_axis, ProcessGrid::Axis::space);
      Names exchanges;
      for (std::size_t i = 0; i < parts.nodes.size(); ++i) {
        const Graph::Node& n = parts.nodes[i];
        if (n.layer && n.layer->kind() == "rows") exchanges.push_back(n.name);
        const bool by_channels = n.name == "conv5" || n.name == "dense1";
        EXPECT_EQ(parts.sharing[i] == Sharing::channels, by_channels) << n.name;
        if (n.name == "conv5") {
          EXPECT_EQ(n.shape.shape, (Shape{1, 128, 4, 4, 4})) << "whole volumes of a quarter of the filters";
          EXPECT_EQ(parts.nodes[static_cast<std::size_t>(n.srcs[0])].shape.shape, (Shape{1, 256, 8, 8, 8}));
        }
      }
      EXPECT_EQ(std::ranges::count(exchanges, "conv5/rows of conv4"), 1);
      const auto brings_channels = [](const auto& name) { return name.find("channels of") != std::string::npos; };
      EXPECT_EQ(std::ranges::count_if(exchanges, brings_channels), 2) << "before dense1 and behind it";
      EXPECT_EQ(exchanges.size(), columns == 1 ? 6U : 11U);
      EXPECT_EQ(parts.parameters.size(), 4U) << "weights and bias of two layers";
      EXPECT_EQ(parts.parameters.at("conv5/weights"), (Parameter::Part{0, 128 * rank, 128}));
      EXPECT_EQ(parts.parameters.at("dense1/bias"), (Parameter::Part{0, 32 * rank, 32}));
    }
}

/// Parameters are shared by plans for training and inference, with any batch.
TEST(ChannelLayers, GiveAllPlansTheSameParts) {
  Graph g;
  Var x = max_pool(relu(conv(g.input("x", {2, 12, 12}), {.filters = 16}, "c1")), 2);
  x = relu(batch_norm(conv(x, {.filters = 600, .bias = false}, "c2"), {}, "bn"));
  const Var y = dense(dropout(flatten(global_average_pool(x)), 0.2f, "drop"), 200, "d1");
  const Var prediction = dense(y, 3, "head");
  g.set_output("prediction", prediction);
  mse(prediction, g.input("y", {3}));
  const ProcessGrid grid({.data = 1, .space = 2}, 1);
  const auto wanted = parts_of_rank(g, grid).parameters;
  EXPECT_EQ(wanted.size(), 7U) << "weights of c2, those of bn, with bias of d1";
  for (const bool training : {true, false})
    for (const std::int64_t batch : {1, 7, 64}) EXPECT_EQ(parts_of_rank(g, grid, training, batch).parameters, wanted);
}

/// Rank r has its part of the weights, gradients and moments of conv5 and dense1, and a half of the values.
TEST(ChannelLayers, DivideParametersAndValues) {
  const EnvironmentVariable rules("KEELSON_TUNE", "off");
  const Graph g = nets::cosmoflow_mlperf({.size = 128});
  const Sgd sgd = sgd_with_momentum();
  std::list<ProcessGrid> grids;  // plans refer to both
  std::list<Parameters> all;
  const auto plan = [&](int ranks, int rank, bool whole) {
    const ProcessGrid& grid = grids.emplace_back(ProcessGrid::Extents{.data = 1, .space = ranks}, rank);
    Parameters& parameters = all.emplace_back(g, context(network_contexts().back()), 1);
    return std::make_unique<Plan>(g, parameters,
                                  PlanOptions{.optimizer = &sgd, .grid = &grid, .whole_parameters = whole});
  };
  const auto alone = plan(1, 0, false);
  constexpr double cut = (512.0 * 256 * 27 + 512 + 128.0 * 32768 + 128) * sizeof(float);
  for (const int ranks : {2, 4}) {
    const auto part = plan(ranks, ranks - 1, false);
    for (const char* purpose : {"parameters", "optimizer state", "gradients"})
      EXPECT_NEAR(plan_bytes(*part, purpose), plan_bytes(*alone, purpose) - cut * (ranks - 1) / ranks, 1e6)
          << purpose << ", " << ranks << ": but for layouts that pad channels";
    EXPECT_LE(plan_bytes(*part), (ranks == 2 ? 0.58 : 0.33) * plan_bytes(*alone)) << "of all memory";
    if (ranks == 2) {
      EXPECT_EQ(part->structure(), plan(2, 0, false)->structure());
    }
  }
  EXPECT_NEAR(plan_bytes(*plan(2, 1, true), "parameters"), plan_bytes(*alone, "parameters"), 1e6);
}

}  // namespace
}  // namespace keelson::testing
