#include <gtest/gtest.h>

#include <numeric>

#include "nets/lstm_lm/lstm_lm.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/fake_async_context.hpp"
#include "tests/train/support.hpp"

/// Trainings that leave samples out (TrainerOptions::prune).
namespace keelson::testing {
namespace {

constexpr PruneRule all_rules[] = {PruneRule::infobatch, PruneRule::random, PruneRule::kakurenbo, PruneRule::forgetting,
                                   PruneRule::el2n};

TrainerOptions pruned(PruneRule rule, double ratio = -1) {
  auto o = small_options();
  o.epochs = 8;
  o.prune = {rule, ratio};
  return o;
}

struct EpochSizes final : TrainObserver {
  std::vector<std::int64_t> samples, steps;
  void on_epoch(const RunState&, const EpochRecord& r, const Evaluation*) override {
    samples.push_back(r.samples);
    steps.push_back(r.step);
  }
};

struct PrunedRun : Training {
  explicit PrunedRun(const TrainerOptions& o, std::int64_t samples = 40) : Training(o, samples) {}
  TrainResult go() { return trainer.run({&recorder, &sizes}); }
  EpochSizes sizes;
};

TEST(PrunedTraining, ARatioOfZeroHasTheBitsOfAllSamples) {
  for (const std::int64_t micro_batches : {1, 2}) {
    auto o = pruned(PruneRule::none);
    o.micro_batches = micro_batches;
    PrunedRun plain(o);
    plain.go();
    for (const PruneRule rule : all_rules) {
      o.prune = {rule, 0};
      PrunedRun run(o);
      run.go();
      EXPECT_EQ(run.recorder.losses, plain.recorder.losses) << to_string(rule);
      EXPECT_EQ(run.recorder.train_losses, plain.recorder.train_losses) << to_string(rule);
      EXPECT_EQ(run.recorder.rates, plain.recorder.rates) << to_string(rule);
      EXPECT_EQ(everything(run.parameters), everything(plain.parameters)) << to_string(rule);
    }
  }
}

TEST(PrunedTraining, EpochsHaveFewerSamplesAndSteps) {
  for (const PruneRule rule : all_rules) {
    PrunedRun run(pruned(rule, 0.5));
    const auto state = run.go().state;
    const auto& n = run.sizes.samples;
    ASSERT_EQ(n.size(), 8u);
    EXPECT_EQ(n.back(), 40) << "the last eighth";
    EXPECT_LT(*std::ranges::min_element(n), 36) << to_string(rule);
    EXPECT_EQ(state.samples, std::accumulate(n.begin(), n.end(), std::int64_t{0}));
    std::int64_t steps = 0;
    for (std::size_t e = 0; e < n.size(); ++e) EXPECT_EQ(run.sizes.steps[e], steps += (n[e] + 3) / 4);
    const auto& t = run.trainer.pruning().table();
    EXPECT_EQ(std::accumulate(t.used.begin(), t.used.end(), 0.0f), static_cast<float>(state.samples));
    const bool visits_all = rule == PruneRule::kakurenbo;
    EXPECT_EQ(std::accumulate(t.visits.begin(), t.visits.end(), 0.0f),
              static_cast<float>(visits_all ? 8 * 40 : state.samples));
  }
}

/// Schedules count epochs: the rate falls to its end, whatever the number of steps.
TEST(PrunedTraining, SchedulesFollowTheStepsThatAreMade) {
  auto o = pruned(PruneRule::random, 0.5);
  o.schedule.kind = Schedule::Kind::linear;
  o.schedule.epochs = 8;
  PrunedRun run(o);
  run.go();
  std::size_t step = 0;
  for (std::size_t e = 0; e < 8; ++e) {
    const auto steps = static_cast<std::size_t>((run.sizes.samples[e] + 3) / 4);
    for (std::size_t i = 0; i < steps; ++i, ++step)
      EXPECT_DOUBLE_EQ(run.recorder.rates[step],
                       o.schedule.at(static_cast<double>(e) + static_cast<double>(i) / static_cast<double>(steps)));
  }
  EXPECT_EQ(step, run.recorder.rates.size());
}

TEST(PrunedTraining, KakurenboRaisesTheRateByThePartThatIsLeftOut) {
  PrunedRun run(pruned(PruneRule::kakurenbo, 0.25));
  run.go();
  EXPECT_EQ(run.sizes.samples, (std::vector<std::int64_t>{40, 30, 30, 30, 30, 30, 30, 40}));
  EXPECT_DOUBLE_EQ(run.recorder.rates[9], 0.02);
  EXPECT_DOUBLE_EQ(run.recorder.rates[10], 0.02 * 40 / 30);
  EXPECT_DOUBLE_EQ(run.recorder.rates.back(), 0.02);
}

/// The losses of the first epoch are those of the samples: one sample per step, and parameters that do not move.
TEST(PrunedTraining, KnowsTheLossOfEachSample) {
  const auto device = make_fake_async_context();
  const std::string host = "kokkos";
  for (Context* where : {device.get(), &context(host)})
    for (const std::int64_t micro_batches : {1, 2, 4}) {
      auto o = pruned(PruneRule::infobatch);
      o.epochs = 1;
      o.schedule.base = 0;
      o.shuffle = false;
      auto one = o;
      one.batch = 1;
      o.micro_batches = micro_batches;
      Training batches(small_network(0), o, *where, 18), single(small_network(0), one, *where, 18);
      batches.go();
      single.go();
      const auto& got = batches.trainer.pruning().table().loss;
      ASSERT_EQ(got.size(), 18u);
      for (std::size_t i = 0; i < 18; ++i) {
        EXPECT_NEAR(got[i], single.recorder.losses[i], 1e-5 * single.recorder.losses[i]) << i;
        EXPECT_EQ(single.trainer.pruning().table().loss[i], static_cast<float>(single.recorder.losses[i])) << i;
      }
    }
}

TEST(PrunedTraining, TheHostNeedNotWaitForLosses) {
  for (const PruneRule rule : all_rules) {
    const auto device = make_fake_async_context();
    const auto o = pruned(rule, 0.5);
    Training far(small_network(0.25f), o, *device, 40), near(small_network(0.25f), o, context("kokkos"), 40);
    far.go();
    near.go();
    EXPECT_EQ(far.trainer.state().samples, near.trainer.state().samples) << to_string(rule);
    EXPECT_EQ(far.trainer.pruning().table().used, near.trainer.pruning().table().used) << to_string(rule);
  }
}

TEST(PrunedTraining, ResumesBitForBitAtAnyStep) {
  for (const PruneRule rule : all_rules)
    for (const std::int64_t stop : {4, 13, 17, 20, 34}) {
      const Folder folder;
      auto o = pruned(rule, 0.5);
      PrunedRun whole(o);
      whole.go();
      o.checkpoints.folder = folder.path();
      o.max_steps = stop;
      PrunedRun part(o);
      ASSERT_EQ(part.go().reason, StopReason::max_steps);
      o.max_steps = -1;
      PrunedRun rest(o);
      rest.trainer.resume(find_checkpoint(folder.path(), false));
      rest.go();
      EXPECT_EQ(everything(rest.parameters), everything(whole.parameters)) << to_string(rule) << stop;
      EXPECT_EQ(rest.trainer.pruning().state(false), whole.trainer.pruning().state(false)) << to_string(rule) << stop;
      EXPECT_EQ(rest.trainer.state().samples, whole.trainer.state().samples);
      EXPECT_EQ(rest.trainer.state().best_metric, whole.trainer.state().best_metric);
    }
}

/// That a checkpoint is written within an epoch changes nothing that follows.
TEST(PrunedTraining, CheckpointsDecideNothing) {
  const Folder folder;
  auto o = pruned(PruneRule::forgetting, 0.5);
  PrunedRun plain(o);
  plain.go();
  o.checkpoints.folder = folder.path();
  o.checkpoints.steps = 3;
  PrunedRun often(o);
  often.go();
  EXPECT_EQ(often.trainer.pruning().state(false), plain.trainer.pruning().state(false));
  EXPECT_EQ(everything(often.parameters), everything(plain.parameters));
}

TEST(PrunedTraining, OtherRunsCannotGoOnWithinTheEpoch) {
  const Folder folder;
  auto o = pruned(PruneRule::infobatch);
  o.checkpoints.folder = folder.path();
  o.max_steps = 13;
  PrunedRun part(o);
  part.go();
  PrunedRun other(pruned(PruneRule::none));
  EXPECT_NE(message_of<InputError>([&] {
              other.trainer.resume(find_checkpoint(folder.path(), false));
            }).find("resume with the --prune-samples of that run"),
            std::string::npos);
}

TEST(PrunedTraining, RefusesWhatDoesNotGoTogether) {
  const auto refused = [](const TrainerOptions& o) { return message_of<InputError>([&] { PrunedRun run(o); }); };
  auto o = pruned(PruneRule::infobatch);
  o.bag = true;
  EXPECT_NE(refused(o).find("--prune-samples infobatch with --bag"), std::string::npos);
  o = pruned(PruneRule::random);
  o.sync.kind = SyncMode::Kind::local;
  EXPECT_NE(refused(o).find("with synchronization local"), std::string::npos);
  const Graph graph = nets::lstm_lm({.vocabulary = 12, .hidden = 8, .layers = 1, .unroll = 5});
  Parameters parameters(graph, context(network_contexts().back()), 1);
  const TokenDataset text(8);
  EXPECT_NE(message_of<InputError>([&] {
              Trainer(graph, parameters, text, nullptr, nullptr, pruned(PruneRule::infobatch));
            }).find("for a network with recurrent states"),
            std::string::npos);
  PrunedRun run(pruned(PruneRule::random));
  EXPECT_NE(message_of<InputError>([&] { run.trainer.step(Batch()); }).find("the trainer chooses samples"),
            std::string::npos);
}

}  // namespace
}  // namespace keelson::testing
