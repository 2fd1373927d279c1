#include "engine/train/growth.hpp"

#include <gtest/gtest.h>

#include "tests/mpi/world.hpp"
#include "tests/support/contexts.hpp"
#include "tests/train/support.hpp"

/// All ranks add the same units, as one rank does.
namespace keelson::testing {
namespace {

class GrowthRanks : public MpiTest {};

TEST_F(GrowthRanks, DecideAsOneRankDoes) {
  const Graph graph = small_network(0, 12);
  Parameters parameters(graph, context(network_contexts().back()), 4);
  const CubeDataset data(50);
  RunState state;
  state.epoch = 2;
  state.topology = Topology(graph).to_text();
  const GrowthOptions options{.widths = {{"*", {.most = {.times = 2}}}}, .epochs = {2}};
  const auto decide = [&](Communicator* ranks) {
    Growth growth(options, {.graph = graph, .training = data, .ranks = ranks, .seed = 1});
    auto change = growth(state, parameters);
    if (!change) fail("no layer can grow");
    return std::pair(std::move(*change), growth.last_event().value());
  };
  const auto [together, event] = decide(&world());
  const auto [alone, alone_event] = decide(nullptr);
  EXPECT_EQ(Topology(together.graph).to_text(), Topology(alone.graph).to_text());
  EXPECT_EQ(event.units.size(), 1U);
  EXPECT_EQ(event.units, alone_event.units);
  EXPECT_EQ(together.maps, alone.maps);
  EXPECT_EQ(together.values, alone.values);
  EXPECT_EQ(together.gradient_factors, alone.gradient_factors);
}

}  // namespace
}  // namespace keelson::testing
