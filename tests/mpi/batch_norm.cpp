#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "engine/optim/sgd.hpp"
#include "tests/mpi/world.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/networks.hpp"
#include "tests/train/support.hpp"

/// Batch normalization over ranks: communication inside forward and backward.
namespace keelson::testing {
namespace {

class BatchNormRanks : public MpiTest {};

/// With 3 or 2 spatial dims; the third normalization is of a matrix. `ranks`: BatchNormOptions::ranks.
Graph normalized_network(int spatial, int ranks) {
  Graph g;
  auto x = g.input("x", {2, 6, 6, 6});
  auto y = g.input("y", {2});
  const BatchNormOptions options{.momentum = 0.2f, .ranks = ranks};
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
  bool operator==(const NormalizedRun&) const = default;
};

/// 18 samples, 4 of them per step: the last step has two, so at four ranks two of them have none.
NormalizedRun train_normalized(const Graph& graph, const std::string& backend, Communicator* ranks,
                               std::int64_t global_batch = 4, int space = 1) {
  auto o = small_options();
  o.replica.space = space;
  o.batch = global_batch * space / (ranks ? ranks->size() : 1);
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
      const Graph graph = normalized_network(spatial, 0);
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
  const Graph graph = normalized_network(3, 0);
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
  mse(dense(batch_norm(g.input("x", {3}), {.ranks = 1}, "bn"), 2), g.input("y", {2}));
  Parameters parameters(g, context(network_contexts().back()), 1);
  try {
    const Plan plan(g, parameters, {.batch = 1});
    ADD_FAILURE() << "accepted";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("bn: a batch of one value for each channel"), std::string::npos) << e.what();
  }
}

TEST_F(BatchNormRanks, StatisticsOfEachRankMakeRunningOnesOfAll) {
  const Graph graph = normalized_network(3, 1);
  const auto backend = network_contexts().back();
  const auto got = train_normalized(graph, backend, &world(), 8), alone = train_normalized(graph, backend, nullptr, 8);
  auto first = got.parameters;
  world().broadcast(first.data(), first.size() * sizeof(float), 0);
  EXPECT_EQ(first, got.parameters);
  if (size() > 1) {
    EXPECT_NE(got.losses[0], alone.losses[0]) << "each rank's part has another mean";
  }
}

/// Ranks of a replica (the axis space) have parts of the same samples, and statistics are those of whole samples.
TEST_F(BatchNormRanks, PartsOfSamplesHaveTheStatisticsOfTheWhole) {
  KEELSON_NEED_RANKS(2);
  const auto others = world().split(rank() % 2, rank());
  for (const auto& backend : network_contexts())
    for (const int replicas : {0, 1}) {
      const Graph graph = normalized_network(3, replicas);
      const auto got = train_normalized(graph, backend, &world(), 4, 2),
                 want = train_normalized(graph, backend, others.get(), 4);
      // Statistics of the two samples of a replica let rounding grow fast.
      for (std::size_t i = 0; i < (replicas == 1 ? 5 : want.losses.size()); ++i)
        EXPECT_NEAR(got.losses[i], want.losses[i], (i < 3 ? 1e-5 : 1e-3) * want.losses[i])
            << "step " << i + 1 << ", statistics over " << replicas << " replicas (0: all) on " << backend;
      auto first = got.parameters;
      world().broadcast(first.data(), first.size() * sizeof(float), 0);
      EXPECT_EQ(first, got.parameters) << "also running statistics";
    }
}

/// A rank that has no sample of an epoch's last step computes with zeros. In a deep network they must not grow beyond
/// all bounds: a gradient that is not finite stays so when its weight is 0.
TEST_F(BatchNormRanks, RanksWithoutASampleDoNoHarm) {
  KEELSON_NEED_RANKS(2);
  Graph g;
  Var h = g.input("x", {2, 6, 6, 6});
  for (int i = 0; i < 24; ++i)
    h = relu(batch_norm(conv(h, {.filters = 4, .bias = false}, fmt::format("conv{}", i)), {.ranks = 1},
                        fmt::format("bn{}", i)));
  const Var p = dense(flatten(h), 2, "dense");
  g.set_output("prediction", p);
  mse(p, g.input("y", {2}));
  for (const auto& backend : network_contexts()) {
    auto o = small_options();
    o.batch = 1;
    o.epochs = 4;
    o.schedule.base = 0.01;
    Parameters parameters(g, context(backend), o.seed);
    const CubeDataset training(2 * size() + 1);
    Trainer(g, parameters, training, nullptr, &world(), o).run();
    for (const float value : everything(parameters)) ASSERT_TRUE(std::isfinite(value)) << backend;
  }
}

TEST_F(BatchNormRanks, SumsTravelBetweenTheCallsThatMakeAndReadThem) {
  KEELSON_NEED_RANKS(2);
  const ProcessGrid grid(world());
  const Graph graph = normalized_network(3, 0);
  Parameters parameters(graph, context(network_contexts().back()), 1);
  const Sgd sgd;
  const Plan plan(graph, parameters, {.batch = 2, .optimizer = &sgd, .grid = &grid});
  std::vector<std::string> of_bn2;
  for (const auto& row : plan.rows())
    if (row.node.starts_with("bn2") && row.op != "reorder") of_bn2.push_back(row.phase + " " + row.op);
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

/// One step on samples of which each rank has two.
struct GroupStep {
  double loss = 0;
  std::map<std::string, Array> gradients;
  std::map<std::string, std::vector<float>> statistics;  ///< after the update
};

constexpr std::int64_t samples_each = 2;

/// The samples of ranks `first` to `first + count`, each with a mean of its own.
Array samples_of(const Shape& sample, const std::string& name, int first, int count) {
  Shape shape{count * samples_each};
  for (const auto d : sample) shape.push_back(d);
  Array all(shape);
  Shape part = shape;
  part[0] = samples_each;
  for (int r = first; r < first + count; ++r) {
    const Array a = oracle::random_uniform(part, fmt::format("{}{}", name, r), 0.5 * r, 0.5 * r + 1 + r);
    std::copy(a.data.begin(), a.data.end(), all.data.begin() + (r - first) * a.elements());
  }
  return all;
}

GroupStep step_on(const Graph& graph, const std::string& backend, int first, int count, int all, PlanOptions options) {
  Context& ctx = context(backend);
  const Sgd sgd;
  options.batch = (options.grid ? 1 : count) * samples_each;
  options.optimizer = &sgd;
  Parameters parameters(graph, ctx, 7);
  Executor executor(graph, parameters, options);
  set_input(ctx, executor, "x", samples_of({2, 6, 6, 6}, "x", first, count));
  set_input(ctx, executor, "y", samples_of({2}, "y", first, count));
  ops::StepParams now;
  now.inverse_samples = 1.0f / static_cast<float>(all * samples_each);
  now.learning_rate = 0.1f;
  executor.forward(now);
  executor.backward();
  GroupStep step{.loss = executor.loss(), .gradients = {}, .statistics = {}};
  for (const Parameter& p : parameters.all()) {
    if (p.kind != ParameterKind::trained) continue;
    const auto g = executor.gradient(p.name);
    step.gradients[p.name] = Array(p.shape, std::vector<double>(g.begin(), g.end()));
  }
  executor.update();
  for (const Parameter& p : parameters.all())
    if (p.kind == ParameterKind::statistic) step.statistics[p.name] = parameters.get(p);
  return step;
}

/// What groups of `n` ranks compute together: each group as one rank that has its samples. Loss and gradients are sums
/// over all samples.
GroupStep expected_step(const Graph& graph, const std::string& backend, int n, int all) {
  GroupStep sum;
  for (int first = 0; first < all; first += n) {
    const auto part = step_on(graph, backend, first, std::min(n, all - first), all, {});
    sum.loss += part.loss;
    for (const auto& [name, g] : part.gradients) {
      Array& total = sum.gradients.try_emplace(name, Array(g.shape)).first->second;
      for (std::int64_t i = 0; i < g.elements(); ++i) total[i] += g[i];
    }
  }
  return sum;
}

Array as_array(const std::vector<float>& v) {
  return Array({static_cast<std::int64_t>(v.size())}, std::vector<double>(v.begin(), v.end()));
}

TEST_F(BatchNormRanks, GroupsOfNeighborsNormalizeWithTheirOwnSamples) {
  const ProcessGrid grid(world());
  std::map<int, double> losses;  // by ranks of a group
  for (const auto& backend : network_contexts())
    for (const int n : {0, 1, 2, 3, 9}) {
      SCOPED_TRACE(fmt::format("groups of {} of {} ranks on {}", n, size(), backend));
      const int ranks = n == 0 || n > size() ? size() : n;
      const Graph graph = normalized_network(3, n);
      const auto want = expected_step(graph, backend, ranks, size());
      const auto got = step_on(graph, backend, rank(), 1, size(), {.grid = &grid});
      EXPECT_NEAR(got.loss, want.loss, 1e-5 * want.loss);
      for (const auto& [name, g] : want.gradients) {
        // Normalization takes the mean away: a bias before it has no gradient but rounding.
        if (name == "conv2/bias" || name == "dense1/bias") continue;
        EXPECT_LT(relative_error(got.gradients.at(name), g), 1e-4) << name;
      }
      losses[ranks] = want.loss;

      // The first normalization's source does not depend on the groups.
      const auto of_all = step_on(graph, backend, 0, size(), size(), {});
      for (const char* name : {"bn1/running_mean", "bn1/running_variance"})
        EXPECT_LT(relative_error(as_array(got.statistics.at(name)), as_array(of_all.statistics.at(name))), 1e-5)
            << name;
      for (const auto& [name, mine] : got.statistics) {
        auto first = mine;
        world().broadcast(first.data(), first.size() * sizeof(float), 0);
        EXPECT_EQ(first, mine) << name;
      }

      const auto again = step_on(graph, backend, rank(), 1, size(), {.recompute = true, .grid = &grid});
      EXPECT_EQ(again.loss, got.loss);
      EXPECT_EQ(again.statistics, got.statistics);
      for (const auto& [name, g] : got.gradients) EXPECT_EQ(again.gradients.at(name).data, g.data) << name;
    }
  for (auto i = losses.begin(); i != losses.end(); ++i)
    for (auto j = std::next(i); j != losses.end(); ++j)
      EXPECT_GT(std::abs(i->second - j->second), 1e-3 * i->second) << i->first << " and " << j->first;
}

/// All ranks refuse what the last group, which is smaller, cannot do.
TEST_F(BatchNormRanks, RefusesOneValueInTheSmallestGroup) {
  KEELSON_NEED_RANKS(4);
  const ProcessGrid grid(world());
  Graph g;
  mse(dense(batch_norm(g.input("x", {3}), {.ranks = 3}, "bn"), 2), g.input("y", {2}));
  Parameters parameters(g, context(network_contexts().back()), 1);
  EXPECT_THROW(Plan(g, parameters, {.batch = 1, .grid = &grid}), InputError);
  EXPECT_NO_THROW(Plan(g, parameters, {.batch = 2, .grid = &grid}));
}

TEST_F(BatchNormRanks, SumsOfGroupsTravelBesideThoseOfAll) {
  KEELSON_NEED_RANKS(4);
  const ProcessGrid grid(world());
  const Graph graph = normalized_network(3, 2);
  Parameters parameters(graph, context(network_contexts().back()), 1);
  const Sgd sgd;
  const Plan plan(graph, parameters, {.batch = 2, .optimizer = &sgd, .grid = &grid});
  std::vector<std::string> of_bn2;
  for (const auto& row : plan.rows())
    if (row.node.starts_with("bn2") && row.op != "reorder") of_bn2.push_back(row.phase + " " + row.op);
  const std::vector<std::string> want{"forward sums",
                                      "forward copy",
                                      "forward allreduce",
                                      "forward wait for allreduce",
                                      "forward statistics",
                                      "forward batch_norm",
                                      "exchange allreduce",
                                      "backward batch_norm bwd weights",
                                      "backward allreduce",
                                      "backward wait for allreduce",
                                      "backward batch_norm bwd data",
                                      "exchange wait for allreduce",
                                      "update update",
                                      "update update",
                                      "update running statistics"};
  EXPECT_EQ(of_bn2, want);
}

}  // namespace
}  // namespace keelson::testing
