#include "engine/train/rate_range.hpp"

#include <gtest/gtest.h>

#include "engine/base/ranks.hpp"
#include "tests/mpi/trained.hpp"
#include "tests/mpi/world.hpp"

/// Searches for learning rates by several ranks.
namespace keelson::testing {
namespace {

class RateRangeMpiTest : public MpiTest {};

TEST_F(RateRangeMpiTest, AllRanksFindTheSame) {
  const Graph graph = small_network();
  const CubeDataset data(35);
  const auto search = [&](Communicator* ranks, std::int64_t batch) {
    auto o = small_options();
    o.batch = batch;
    Parameters parameters(graph, context(network_contexts().back()), o.seed);
    return find_rates(graph, parameters, data, ranks, o, {.least = 1e-4, .most = 1e3, .steps = 25, .smoothing = 0.5});
  };
  const RateRange found = search(&world(), 8 / size()), alone = search(nullptr, 8);
  EXPECT_TRUE(found.diverged);
  std::string losses;
  for (const RatePoint& p : found.points) losses += fmt::format("{} ", p.loss);
  compare_values(world(), {{"losses", losses}}, "searches");
  ASSERT_GT(found.points.size(), 10u);
  for (std::size_t i = 0; i < 10; ++i)
    EXPECT_NEAR(found.points[i].loss, alone.points[i].loss, 1e-4 * alone.points[i].loss);
}

}  // namespace
}  // namespace keelson::testing
