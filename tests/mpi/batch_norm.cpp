#include <gtest/gtest.h>

#include <numeric>

#include "tests/mpi/world.hpp"
#include "tests/support/contexts.hpp"
#include "tests/train/support.hpp"

/// Batch normalization over ranks: communication inside forward and backward.
namespace keelson::testing {
namespace {

class BatchNormRanks : public MpiTest {};

/// With 3 or 2 spatial dims; the second normalization is of a matrix.
Graph normalized_network(int spatial, bool over_ranks) {
  Graph g;
  auto x = g.input("x", {2, 6, 6, 6});
  auto y = g.input("y", {2});
  const BatchNormOptions options{.momentum = 0.2f, .over_ranks = over_ranks};
  auto h = spatial == 3 ? x : reshape(x, {12, 6, 6});
  h = relu(batch_norm(conv(h, {.filters = 6, .bias = false}, "conv1"), options, "bn1"));
  h = relu(batch_norm(conv(max_pool(h, 2), {.filters = 5}, "conv2"), options, "bn2"));
  h = tanh(batch_norm(dense(flatten(h), 7, "dense1"), options, "bn3"));
  auto p = dense(h, 2, "dense2");
  g.set_output("prediction", p);
  mse(p, y);
  return g;
}

struct NormalizedRun {
  std::vector<double> losses, metrics;
  std::vector<float> parameters;
};

/// 18 samples, 4 of them per step: the last step has two, so at four ranks two of them have none.
NormalizedRun train_normalized(const Graph& graph, const std::string& backend, Communicator* ranks,
                               std::int64_t global_batch = 4) {
  auto o = small_options();
  o.batch = global_batch / (ranks ? ranks->size() : 1);
  o.epochs = 3;
  o.schedule.base = 0.01;
  Parameters parameters(graph, context(backend), o.seed);
  const CubeDataset training(18), validation(7, 6, 99);
  Trainer trainer(graph, parameters, training, &validation, ranks, o);
  Recorder recorder;
  trainer.run({&recorder});
  return {recorder.losses, recorder.metrics, everything(parameters)};
}

TEST_F(BatchNormRanks, RanksWithAPartOfTheBatchHaveTheLossesOfOneWithAllOfIt) {
  for (const auto& backend : network_contexts())
    for (const int spatial : {2, 3}) {
      SCOPED_TRACE(fmt::format("{}-D on {}", spatial, backend));
      const Graph graph = normalized_network(spatial, true);
      const auto got = train_normalized(graph, backend, &world()), want = train_normalized(graph, backend, nullptr);
      EXPECT_EQ(got.losses.size(), want.losses.size());
      EXPECT_LT(std::accumulate(want.losses.end() - 5, want.losses.end(), 0.0),
                std::accumulate(want.losses.begin(), want.losses.begin() + 5, 0.0))
          << "the last epoch is better than the first";
      for (std::size_t i = 0; i < want.losses.size(); ++i)
        // Rounding grows from step to step.
        EXPECT_NEAR(got.losses[i], want.losses[i], (i < 3 ? 1e-5 : 3e-4) * want.losses[i]) << "step " << i + 1;
      for (std::size_t i = 0; i < want.metrics.size(); ++i) EXPECT_NEAR(got.metrics[i], want.metrics[i], 1e-4);
      auto first = got.parameters;
      world().broadcast(first.data(), first.size() * sizeof(float), 0);
      EXPECT_EQ(first, got.parameters) << "running statistics are the same on all ranks";
    }
}

/// The rank that knows the culprit must not leave the others waiting in the collectives of forward.
TEST_F(BatchNormRanks, AnInputThatIsNotFiniteStopsAllRanks) {
  const Graph graph = normalized_network(3, true);
  Parameters parameters(graph, context(network_contexts().back()), 1);
  CubeDataset training(8);
  training.poisoned = 7;
  auto o = small_options();
  o.shuffle = false;
  o.batch = 4 / size();
  Trainer trainer(graph, parameters, training, nullptr, &world(), o);
  std::string text;
  try {
    trainer.run();
  } catch (const Error& e) {
    text = e.what();
  }
  EXPECT_NE(text.find("input x"), std::string::npos) << text;
  EXPECT_NE(text.find(fmt::format("on rank {}", size() - 1)), std::string::npos) << text;
  for (const auto& other : world().allgather(text)) EXPECT_EQ(other, text);
}

/// A batch of one value per channel says nothing of its variance.
TEST_F(BatchNormRanks, RefusesOneValueForAStatistic) {
  Graph g;
  mse(dense(batch_norm(g.input("x", {3}), {.over_ranks = false}, "bn"), 2), g.input("y", {2}));
  Parameters parameters(g, context(network_contexts().back()), 1);
  try {
    const Plan plan(g, parameters, {.batch = 1});
    ADD_FAILURE() << "accepted";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("bn: a batch of one value for each channel"), std::string::npos) << e.what();
  }
}

TEST_F(BatchNormRanks, StatisticsOfEachRankMakeRunningOnesOfAll) {
  const Graph graph = normalized_network(3, false);
  const auto backend = network_contexts().back();
  const auto got = train_normalized(graph, backend, &world(), 8), alone = train_normalized(graph, backend, nullptr, 8);
  auto first = got.parameters;
  world().broadcast(first.data(), first.size() * sizeof(float), 0);
  EXPECT_EQ(first, got.parameters);
  if (size() > 1) {
    EXPECT_NE(got.losses[0], alone.losses[0]) << "each rank's part has another mean";
  }
}

TEST_F(BatchNormRanks, SumsTravelBetweenTheCallsThatMakeAndReadThem) {
  KEELSON_NEED_RANKS(2);
  const ProcessGrid grid(world());
  const Graph graph = normalized_network(3, true);
  Parameters parameters(graph, context(network_contexts().back()), 1);
  const Sgd sgd;
  const Plan plan(graph, parameters, {.batch = 2, .optimizer = &sgd, .grid = &grid});
  std::vector<std::string> of_bn2;
  for (const auto& row : plan.rows())
    if (row.node.starts_with("bn2")) of_bn2.push_back(row.phase + " " + row.op);
  const std::vector<std::string> want{"forward sums",
                                      "forward allreduce",
                                      "forward wait for allreduce",
                                      "forward statistics",
                                      "forward batch_norm",
                                      "backward batch_norm bwd weights",
                                      "backward allreduce",
                                      "backward wait for allreduce",
                                      "backward batch_norm bwd data",
                                      "update update",
                                      "update update",
                                      "update running statistics"};
  // Updates bear the parameters' names; the exchange of gradients is in buckets.
  EXPECT_EQ(of_bn2, want);
}

}  // namespace
}  // namespace keelson::testing
