#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "backends/registry.hpp"
#include "engine/base/error.hpp"
#include "engine/layers/layers.hpp"
#include "engine/optim/sgd.hpp"
#include "engine/train/choose_grid.hpp"
#include "engine/train/training_grid.hpp"
#include "tests/mpi/world.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/environment_variable.hpp"
#include "tests/train/support.hpp"

/// choose_grid(): the planner of process grids.
namespace keelson::testing {
namespace {

Graph volumes(std::int64_t edge = 16) {
  Graph g;
  Var x = max_pool(leaky_relu(conv(g.input("x", {2, edge, edge, edge}), {.filters = 8}, "c1"), 0.1f), 2);
  x = max_pool(leaky_relu(conv(x, {.filters = 8}, "c2"), 0.1f), 2);
  mse(dense(flatten(x), 3, "out"), g.input("y", {3}));
  return g;
}

/// Too few features for parts, and a layer that stages refuse.
Graph vectors() {
  Graph g;
  mse(batch_norm(dense(g.input("x", {5}), 3, "out"), {}, "bn"), g.input("y", {3}));
  return g;
}

/// Nothing has rows that could be cut.
Graph wide() {
  Graph g;
  mse(dense(relu(dense(g.input("x", {5}), 16, "d1")), 8, "d2"), g.input("y", {8}));
  return g;
}

class ChooseGridTest : public MpiTest {
 protected:
  ChooseGridTest() {
    context("kokkos");  // skips where there is no device; other tests use this context, which must measure nothing
    tune_.emplace("KEELSON_TUNE", "on");
    if (rank() == 0) folder_.emplace();
    cache_.emplace("KEELSON_CACHE", world().allgather(folder_ ? folder_->path().string() : "")[0].c_str());
    context_ = backends::make_context();
    ranks_ = world().split(0, rank());
    options_.optimizer = &sgd_;
  }
  GridChoice choose(const Graph& graph, std::int64_t global_batch, const GridChoiceOptions& how = {}) {
    return choose_grid(graph, *context_, *ranks_, global_batch, options_, how);
  }
  static const GridCandidate& with_parts(const GridChoice& choice, int parts,
                                         int ProcessGrid::Extents::* axis = &ProcessGrid::Extents::space) {
    return *std::ranges::find_if(choice.candidates, [&](const auto& c) { return c.extents.*axis == parts; });
  }

  Sgd sgd_;
  PlanOptions options_;
  std::optional<Folder> folder_;
  std::optional<EnvironmentVariable> cache_;
  std::optional<EnvironmentVariable> tune_;
  std::unique_ptr<Context> context_;
  /// Other tests sum over world(), by rules of thumb alone.
  std::unique_ptr<Communicator> ranks_;
};

TEST_F(ChooseGridTest, TakesTheFastestOfTheGridsThatItMeasures) {
  const GridChoice choice = choose(volumes(), 2L * world().size(), {.measure_all = true});
  EXPECT_EQ(choice.reason, "measured");
  double best = 1e9;
  for (const GridCandidate& c : choice.candidates) {
    EXPECT_EQ(c.extents.data * ranks_of(c.extents), world().size());
    EXPECT_EQ(c.batch * c.extents.data, 2L * world().size());
    EXPECT_EQ(c.refusal, "") << c.name();
    EXPECT_GT(c.bytes, 0) << c.name();
    EXPECT_GT(c.estimated, 0) << c.name();
    EXPECT_GT(c.measured, 0) << c.name();
    best = std::min(best, c.measured);
  }
  EXPECT_LE(choice.grid().measured, 1.03 * best);
  for (std::size_t i = 0; i < choice.chosen; ++i) EXPECT_GT(choice.candidates[i].measured, 1.03 * best);
  const auto of_all = world().allgather(fmt::format("{} {}", choice.grid().name(), choice.grid().measured));
  for (const auto& one : of_all) EXPECT_EQ(one, of_all[0]);
}

TEST_F(ChooseGridTest, KeepsItsAnswer) {
  const GridChoice first = choose(volumes(), world().size()), second = choose(volumes(), world().size());
  EXPECT_EQ(first.reason, "measured");
  EXPECT_EQ(second.reason.find("kept from an earlier start"), 0U) << second.reason;
  EXPECT_EQ(second.grid().name(), first.grid().name());
  EXPECT_EQ(second.grid().measured, 0);
  EXPECT_EQ(choose(volumes(), 3L * world().size()).reason, "measured") << "another global batch";
}

TEST_F(ChooseGridTest, TakesTheFewestPartsWithoutMeasuring) {
  const EnvironmentVariable off("KEELSON_TUNE", "off");
  context_ = backends::make_context();
  const GridChoice choice = choose(volumes(), world().size());
  EXPECT_EQ(choice.grid().extents.space, 1);
  EXPECT_EQ(choice.grid().measured, 0);
  EXPECT_NE(choice.reason.find("KEELSON_TUNE=off"), std::string::npos);
}

/// One sample for all ranks: they can only share the sample.
TEST_F(ChooseGridTest, RefusesGridsThatCannotShareOutTheSamples) {
  KEELSON_NEED_RANKS(2);
  const GridChoice choice = choose(volumes(), 1);
  EXPECT_EQ(choice.grid().extents.data, 1) << "space, channels or stages, whichever is faster here";
  EXPECT_NE(with_parts(choice, 1).refusal.find("1 sample cannot be shared out evenly"), std::string::npos);
  const GridChoice dense = choose(vectors(), world().size());
  EXPECT_EQ(dense.grid().extents.space, 1);
  EXPECT_NE(with_parts(dense, world().size()).refusal.find("can be cut into"), std::string::npos);
  try {
    choose(vectors(), 1);
    FAIL();
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("no process grid of"), std::string::npos) << e.what();
  }
}

/// Dense layers have channels and stages alone. Each has a refusal where another option needs whole parameters.
TEST_F(ChooseGridTest, SharesLayersWhereSamplesHaveNoRows) {
  KEELSON_NEED_RANKS(2);
  using Extents = ProcessGrid::Extents;
  const int all = world().size();
  const GridChoice choice = choose(wide(), 1, {.measure_all = true});
  EXPECT_NE(with_parts(choice, all).refusal.find("can be cut into"), std::string::npos);
  EXPECT_GT(with_parts(choice, all, &Extents::channel).measured, 0);
  EXPECT_EQ(choice.grid().extents.data, 1);
  if (all == 2) {
    EXPECT_GT(with_parts(choice, all, &Extents::stage).measured, 0);
    EXPECT_EQ(with_parts(choose(wide(), 6), 2, &Extents::stage).micro_batches, 6);
  }
  options_.exchange.shards = OptimizerShards::moments;
  const GridChoice shards = choose(wide(), all);
  EXPECT_NE(with_parts(shards, all, &Extents::channel).refusal.find("whole parameters"), std::string::npos);
  EXPECT_EQ(shards.grid().extents.data, all);
}

TEST_F(ChooseGridTest, TakesMicroBatchesWhereOnlyTheyFitTheMemory) {
  const std::int64_t global_batch = 8L * world().size();
  const Graph graph = volumes(32);
  const double whole = with_parts(choose(graph, global_batch), 1).bytes;
  context_->device().limit_memory(static_cast<std::size_t>(0.8 * whole));
  const GridChoice choice = choose(graph, global_batch, {.measure_all = true});
  const GridCandidate& samples = with_parts(choice, 1);
  EXPECT_EQ(samples.refusal, "");
  EXPECT_EQ(samples.micro_batches, 2);
  EXPECT_LT(samples.bytes, 0.8 * whole);
  EXPECT_GT(samples.measured, 0);
}

TEST_F(ChooseGridTest, RefusesGridsThatDoNotFitTheMemory) {
  context_->device().limit_memory(20000);
  try {
    choose(volumes(), world().size());
    FAIL();
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("GiB on a rank that has"), std::string::npos) << e.what();
  }
}

TEST_F(ChooseGridTest, GivesItsMemoryBack) {
  choose(volumes(), world().size(), {.measure_all = true});
  EXPECT_EQ(context_->device().memory().used, 0U);
}

}  // namespace
}  // namespace keelson::testing
