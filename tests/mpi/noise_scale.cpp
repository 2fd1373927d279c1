#include "engine/train/noise_scale.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/ranks.hpp"
#include "tests/mpi/trained.hpp"
#include "tests/mpi/world.hpp"

/// TrainerOptions::noise_scale: ranks measure what one rank with as many micro-batches measures.
namespace keelson::testing {
namespace {

struct Noise final : TrainObserver {
  std::vector<double> gradients, noises;
  void on_step(const RunState&, const StepRecord& r) override {
    gradients.push_back(r.noise.gradient);
    noises.push_back(r.noise.noise);
  }
};

struct MeasuredRun {
  Noise noise;
  std::vector<float> parameters;
};

class NoiseScaleMpiTest : public MpiTest {
 protected:
  /// Four samples per rank; the last step of an epoch has fewer.
  static TrainerOptions options(std::int64_t every = 1) {
    auto o = small_options();
    o.optimizer = make_sgd(0);
    o.schedule.base = 1e-3;
    o.exchange.bucket_bytes = 1000;  // several
    o.noise_scale = every;
    return o;
  }
  static MeasuredRun run(const Graph& graph, const Dataset& data, Communicator* ranks, const TrainerOptions& o) {
    Parameters parameters(graph, context(network_contexts().back()), o.seed);
    Trainer trainer(graph, parameters, data, nullptr, ranks, o);
    MeasuredRun result;
    trainer.run({&result.noise});
    for (const Parameter& p : parameters.all()) {
      const auto values = parameters.get(p);
      result.parameters.insert(result.parameters.end(), values.begin(), values.end());
    }
    return result;
  }
  static void expect_alike(const MeasuredRun& got, const MeasuredRun& want) {
    ASSERT_EQ(got.noise.noises.size(), want.noise.noises.size());
    for (std::size_t i = 0; i < got.noise.noises.size(); ++i) {
      ASSERT_TRUE(std::isfinite(want.noise.noises[i])) << i;
      EXPECT_NEAR(got.noise.noises[i], want.noise.noises[i], 1e-3 * std::abs(want.noise.noises[i])) << i;
      EXPECT_NEAR(got.noise.gradients[i], want.noise.gradients[i],
                  1e-3 * (std::abs(want.noise.gradients[i]) + want.noise.noises[i]))
          << i;
    }
    for (const double number : got.noise.noises)
      compare_values(world(), {{"noise", fmt::format("{}", number)}}, "noise scales");
  }
};

TEST_F(NoiseScaleMpiTest, IsThatOfMicroBatches) {
  KEELSON_NEED_RANKS(2);
  const Graph graph = small_network();
  const CubeDataset data(35);
  auto alone = options();
  alone.batch = 4L * size();
  alone.micro_batches = size();
  const MeasuredRun want = run(graph, data, nullptr, alone), got = run(graph, data, &world(), options());
  expect_alike(got, want);
  auto parts = options();  // parts of two samples
  parts.micro_batches = 2;
  alone.micro_batches = 2L * size();
  expect_alike(run(graph, data, &world(), parts), run(graph, data, nullptr, alone));
}

TEST_F(NoiseScaleMpiTest, IsTheSameWithShards) {
  KEELSON_NEED_RANKS(2);
  const Graph graph = small_network();
  const CubeDataset data(35);
  const MeasuredRun want = run(graph, data, &world(), options());
  for (const auto shards : {OptimizerShards::moments, OptimizerShards::gradients}) {
    auto o = options();
    o.exchange.shards = shards;
    expect_alike(run(graph, data, &world(), o), want);
  }
}

/// The gradient of the embedding is exchanged by rows.
TEST_F(NoiseScaleMpiTest, CountsGradientsByRows) {
  KEELSON_NEED_RANKS(2);
  const Graph graph = token_network();
  const TokenDataset data(24);
  auto alone = options();
  alone.batch = 4L * size();
  alone.micro_batches = size();
  expect_alike(run(graph, data, &world(), options()), run(graph, data, nullptr, alone));
}

TEST_F(NoiseScaleMpiTest, IsTheSameWithReproducibleSums) {
  KEELSON_NEED_RANKS(2);
  const Graph graph = small_network();
  const CubeDataset data(32);
  auto o = options(), alone = options();
  o.exchange.reproducible = alone.exchange.reproducible = true;
  alone.batch = 4L * size();
  const MeasuredRun want = run(graph, data, nullptr, alone), got = run(graph, data, &world(), o);
  EXPECT_EQ(got.noise.noises, want.noise.noises);
  EXPECT_EQ(got.parameters, want.parameters);
}

TEST_F(NoiseScaleMpiTest, MeasuringChangesNoBits) {
  KEELSON_NEED_RANKS(2);
  const Graph graph = small_network();
  const CubeDataset data(35);
  for (const auto shards : {OptimizerShards::none, OptimizerShards::moments, OptimizerShards::gradients}) {
    auto with = options(2), without = options(0);
    with.exchange.shards = without.exchange.shards = shards;
    EXPECT_EQ(run(graph, data, &world(), with).parameters, run(graph, data, &world(), without).parameters);
  }
}

TEST_F(NoiseScaleMpiTest, IsRefusedForPartsOfSamples) {
  KEELSON_NEED_RANKS(2);
  auto o = options();
  o.replica.space = size();
  EXPECT_THROW(run(small_network(), CubeDataset(35), &world(), o), InputError);
}

}  // namespace
}  // namespace keelson::testing
