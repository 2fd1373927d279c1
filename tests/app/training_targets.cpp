#include "apps/common/training_targets.hpp"

#include <gtest/gtest.h>

#include "comm/communicators.hpp"
#include "engine/data/epoch_order.hpp"
#include "tests/support/contexts.hpp"
#include "tests/train/support.hpp"

namespace keelson::app {
namespace {

using testing::CubeDataset;
using testing::Folder;

struct Run {
  std::vector<std::vector<double>> baselines;  ///< of each validation
  RunState state;
};

/// Training on 18 samples, five steps per epoch, beside the baseline.
Run train(TrainerOptions o, const std::filesystem::path& resume = {}) {
  const auto graph = testing::small_network();
  const CubeDataset training(18), validation(7, 6, 99);
  const TargetMetrics metrics(std::make_shared<MeanAbsoluteError>(std::vector<TargetUnit>{{"amplitude"}, {"slope"}}),
                              3);
  o.evaluation.metrics = metrics.all();
  Parameters parameters(graph, testing::context(testing::network_contexts().back()), o.seed);
  Trainer trainer(graph, parameters, training, &validation, nullptr, o);
  if (!resume.empty()) trainer.resume(resume);
  struct Keep final : TrainObserver {
    explicit Keep(const MeanBaseline& b) : baseline(b) {}
    void on_epoch(const RunState&, const EpochRecord&, const Evaluation*) override {
      values.push_back(baseline.values());
    }
    const MeanBaseline& baseline;
    std::vector<std::vector<double>> values;
  } keep(*metrics.baseline);
  TrainingTargets targets(training, o, nullptr, *metrics.baseline);
  Run run;
  run.state = trainer.run({&targets, &keep}).state;
  run.baselines = keep.values;
  EXPECT_EQ(metrics.predictions->truth().size(), o.max_steps == 3 ? 0u : 6u);
  return run;
}

std::vector<float> target_of(const CubeDataset& data, std::int64_t i) {
  std::vector<float> x(2 * 216), y(2);
  void* dst[] = {x.data(), y.data()};
  data.read(i, dst);
  return y;
}

TEST(TrainingTargets, TheBaselineIsTheErrorOfTheirMean) {
  const Folder folder;
  auto o = testing::small_options();
  o.checkpoints.folder = folder.path();
  const auto run = train(o);
  const CubeDataset training(18), validation(7, 6, 99);
  const auto mean = TrainingTargets::mean(run.state);
  ASSERT_EQ(mean.size(), 2u);
  ASSERT_EQ(run.baselines.size(), 2u);
  for (std::size_t t = 0; t < 2; ++t) {
    double expected = 0, error = 0;
    for (std::int64_t i = 0; i < 18; ++i) expected += target_of(training, i)[t] / 18.0;
    for (std::int64_t i = 0; i < 7; ++i) error += std::abs(target_of(validation, i)[t] - expected) / 7;
    EXPECT_NEAR(mean[t], expected, 1e-9);
    EXPECT_NEAR(run.baselines[0][t], error, 1e-9);
  }
  EXPECT_EQ(run.baselines[1], run.baselines[0]) << "the second epoch adds nothing";
  EXPECT_EQ(run.state.observed.at("target_samples"), std::vector<double>{18});
}

TEST(TrainingTargets, ComeBackWithTheCheckpoint) {
  const Folder folder;
  auto o = testing::small_options();
  const auto whole = train(o);
  EXPECT_TRUE(TrainingTargets::mean(whole.state).empty()) << "nothing is stored without checkpoints";
  o.checkpoints.folder = folder.path();
  o.max_steps = 3;
  const auto part = train(o);
  EXPECT_EQ(part.state.observed.at("target_samples"), std::vector<double>{12});
  o.max_steps = -1;
  const auto rest = train(o, find_checkpoint(folder.path(), false));
  EXPECT_EQ(rest.baselines, whole.baselines);
}

TEST(TrainingTargets, OfALostRankAreReadAgain) {
  const CubeDataset training(9);
  MeanBaseline baseline(std::make_shared<MeanAbsoluteError>());
  const auto alone = comm::make_self();  // the other of two ranks is lost before it has told its sums
  const TrainerOptions o;
  TrainingTargets targets(training, o, alone.get(), baseline);
  RunState s;
  targets.on_start(s, "");
  const EpochOrder order(training.size(), o.seed, 0);
  std::vector<double> expected(2);
  const auto step = [&](std::int64_t first, std::int64_t all) {
    const auto y = target_of(training, order[first]);
    Batch batch;
    std::vector<float> x(2 * 216);
    batch.fields = {x.data(), const_cast<float*>(y.data())};
    batch.count = 1;
    batch.global_count = all;
    targets.on_batch(s, batch);
    for (auto i = first; i < first + all; ++i)
      for (std::size_t t = 0; t < 2; ++t) expected[t] += target_of(training, order[i])[t];
  };
  const auto check = [&](double samples) {
    targets.before_checkpoint(s);
    targets.on_agreement();
    EXPECT_EQ(s.observed.at("target_samples"), std::vector<double>{samples});
    for (std::size_t t = 0; t < 2; ++t) EXPECT_NEAR(s.observed.at("target_sum")[t], expected[t], 1e-9);
  };
  step(0, 1);
  check(1);
  step(1, 2);
  step(3, 2);
  step(5, 1);
  check(6);
  step(6, 1);
  check(7);
}

TEST(TrainingTargets, OfAStateWithoutThem) {
  EXPECT_TRUE(TrainingTargets::mean({}).empty());
  RunState s;
  s.observed = {{"target_sum", {}}, {"target_samples", {0}}};
  EXPECT_TRUE(TrainingTargets::mean(s).empty());
  s.observed = {{"target_sum", {3, 5}}, {"target_samples", {4}}};
  EXPECT_EQ(TrainingTargets::mean(s), (std::vector<double>{0.75, 1.25}));
}

}  // namespace
}  // namespace keelson::app
