#include "engine/train/apoptosis.hpp"

#include <gtest/gtest.h>

#include "tests/mpi/world.hpp"
#include "tests/support/contexts.hpp"
#include "tests/train/support.hpp"

/// The ranks share the probe, and decide as one rank does.
namespace keelson::testing {
namespace {

class ApoptosisRanks : public MpiTest {};

TEST_F(ApoptosisRanks, DecideAsOneRankDoes) {
  const Graph graph = small_network(0, 32);
  Parameters parameters(graph, context(network_contexts().back()), 4);
  const CubeDataset data(200);
  RunState state;
  state.epoch = 2;
  state.topology = Topology(graph).to_text();
  ApoptosisOptions options = ApoptosisOptions::of("aggressive");
  options.least_units = 3;
  options.rise = 1;
  options.first = 0;
  const auto decide = [&](Communicator* ranks) {
    Apoptosis apoptosis(options,
                        {.graph = graph, .training = data, .ranks = ranks, .batch = 4, .epochs = 9, .seed = 1});
    auto change = apoptosis(state, parameters);
    if (!change) fail("no unit can go");
    return std::pair(std::move(*change), apoptosis.last_event().value());
  };
  const auto [together, event] = decide(&world());
  const auto [alone, alone_event] = decide(nullptr);
  EXPECT_EQ(Topology(together.graph).to_text(), Topology(alone.graph).to_text());
  EXPECT_LT(Topology(together.graph).widths().at("dense1"), 32);
  EXPECT_EQ(together.maps, alone.maps);
  EXPECT_TRUE(event.reasons.contains("redundant")) << together.text;
  EXPECT_FALSE(together.values.empty()) << "biases with the means of units";
  EXPECT_EQ(together.values, alone.values);
  EXPECT_EQ(event.loss, alone_event.loss);
  EXPECT_EQ(event.loss_before, alone_event.loss_before);
}

}  // namespace
}  // namespace keelson::testing
