#include <gtest/gtest.h>

#include "tests/support/contexts.hpp"
#include "tests/support/fake_async_context.hpp"
#include "tests/train/support.hpp"

/// Trainers whose loop the caller owns.
namespace keelson::testing {
namespace {

/// 18 samples in batches of 4: five steps per epoch, the last of two samples.
struct Own {
  explicit Own(TrainerOptions options = small_options(), Context* where = nullptr)
      : graph(small_network()),
        parameters(graph, where ? *where : context(network_contexts().back()), options.seed),
        trainer(graph, parameters, training, &validation, nullptr, std::move(options)) {
    trainer.observe({&recorder});
  }
  Graph graph;
  Parameters parameters;
  CubeDataset training{18}, validation{7, 6, 99};
  Recorder recorder;
  Trainer trainer;
};

TEST(TrainerStep, GivesTheBitsOfRun) {
  const auto device = make_fake_async_context();
  const std::string host = "kokkos";
  for (Context* where : {device.get(), &context(host)}) {
    Own whole(small_options(), where), own(small_options(), where);
    EXPECT_EQ(whole.trainer.run({&whole.recorder}).reason, StopReason::epochs_done);
    std::vector<double> metrics;
    int steps = 0;
    while (own.trainer.step()) {
      ++steps;
      EXPECT_EQ(own.trainer.state().step, steps);
      if (steps == 3) own.trainer.validate();  // changes nothing
      if (own.trainer.epoch_done()) metrics.push_back(own.trainer.end_epoch().metric);
    }
    EXPECT_EQ(steps, 10);
    EXPECT_EQ(own.trainer.stop_reason(), StopReason::epochs_done);
    EXPECT_EQ(own.recorder.losses, whole.recorder.losses);
    EXPECT_EQ(metrics, whole.recorder.metrics);
    EXPECT_EQ(own.trainer.last_step().loss, whole.recorder.losses.back());
    EXPECT_EQ(everything(own.parameters), everything(whole.parameters));
    EXPECT_EQ(own.trainer.state().best_metric, whole.trainer.state().best_metric);
  }
}

TEST(TrainerStep, KnowsTheLossOfTheLatestStepAfterWaiting) {
  const auto device = make_fake_async_context();
  Own whole(small_options(), device.get()), own(small_options(), device.get());
  whole.trainer.run({&whole.recorder});
  for (std::size_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(own.trainer.step());
    own.trainer.wait();
    EXPECT_EQ(own.trainer.last_step().step, static_cast<std::int64_t>(i + 1));
    EXPECT_EQ(own.trainer.last_step().loss, whole.recorder.losses[i]);
  }
}

TEST(TrainerStep, EpochsEndWithoutValidationWhereTheCallerLeavesItOut) {
  Own own, whole;
  whole.trainer.run();
  int validations = 0;
  while (own.trainer.step()) validations += own.recorder.validations.empty() ? 0 : 1;
  EXPECT_EQ(validations, 0);
  EXPECT_EQ(own.trainer.state().epoch, 2);
  EXPECT_EQ(own.trainer.state().best_epoch, -1);
  EXPECT_EQ(everything(own.parameters), everything(whole.parameters));
  EXPECT_FALSE(own.trainer.step());
}

TEST(TrainerStep, RunContinuesWhatTheCallerHasBegunAndSaved) {
  const Folder folder;
  Own whole, direct;
  whole.trainer.run();
  auto o = small_options();
  o.checkpoints.folder = folder.path();
  Own own(o);
  for (int i = 0; i < 7; ++i) {
    ASSERT_TRUE(own.trainer.step());
    EXPECT_TRUE(direct.trainer.step());
    if (own.trainer.epoch_done()) own.trainer.end_epoch(), direct.trainer.end_epoch();
  }
  EXPECT_TRUE(folder.files().empty()) << "checkpoints are the caller's";
  own.trainer.save_checkpoint(true);
  own.trainer.wait();
  EXPECT_EQ(folder.files(), (std::vector<std::string>{"best.h5", "step-0000000007.h5"}));
  Own rest;
  rest.trainer.resume(find_checkpoint(folder.path(), false));
  rest.trainer.run();
  direct.trainer.run();
  EXPECT_EQ(everything(rest.parameters), everything(whole.parameters));
  EXPECT_EQ(everything(direct.parameters), everything(whole.parameters));
}

TEST(TrainerStep, ACheckpointThatCannotBeWrittenEndsTheTraining) {
  const Folder folder;
  std::ofstream(folder / "file") << "in the way";
  auto o = small_options();
  o.epochs = 1'000'000;
  o.checkpoints.folder = folder / "file" / "checkpoints";
  Own own(o);
  ASSERT_TRUE(own.trainer.step());
  own.trainer.save_checkpoint();
  const auto text = message_of<Error>([&] {
    while (own.trainer.step())
      if (own.trainer.epoch_done()) own.trainer.end_epoch();
  });
  EXPECT_NE(text.find("checkpoints"), std::string::npos) << text;
}

TEST(TrainerStep, TakesBatchesOfTheCaller) {
  Own whole, own;
  whole.trainer.run();
  Loader loader(own.training, {.batch = 4, .seed = 11});
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    loader.start_epoch(epoch);
    for (int i = 0; i < 5; ++i) {
      if (i == 2) {  // one of the trainer's own between them
        loader.next();
        ASSERT_TRUE(own.trainer.step());
        continue;
      }
      Batch batch = *loader.next();
      if (i == 4) batch.weight = nullptr;  // of two samples, and room for four
      batch.indices = nullptr;
      own.trainer.step(batch);
    }
    EXPECT_TRUE(own.trainer.epoch_done());
  }
  EXPECT_EQ(everything(own.parameters), everything(whole.parameters));
  EXPECT_FALSE(own.trainer.step());
}

TEST(TrainerStep, RefusesWhatDoesNotFit) {
  Own own;
  std::vector<float> x(4 * 2 * 216), y(4 * 2);
  Batch batch;
  const auto refusal = [&] { return message_of<InputError>([&] { own.trainer.step(batch); }); };
  EXPECT_NE(refusal().find("a batch of 0 fields was given. Expected 2"), std::string::npos);
  batch.fields = {x.data(), y.data()};
  EXPECT_NE(refusal().find("a batch of 0 samples, 0 of all ranks"), std::string::npos);
  batch.count = batch.global_count = 5;
  EXPECT_NE(refusal().find("a batch of 5 samples"), std::string::npos);
  batch.count = batch.global_count = 4;
  own.trainer.step(batch);
  EXPECT_NE(message_of<Error>([&] { own.trainer.end_epoch(); }).find("after 1 of the 5 steps"), std::string::npos);
  Trainer alone(own.graph, own.parameters, own.training, nullptr, nullptr, small_options());
  EXPECT_NE(message_of<Error>([&] { alone.validate(); }).find("without validation data"), std::string::npos);
}

TEST(TrainerStep, EndsWhereTheCallerWants) {
  Own own;
  int steps = 0;
  while (own.trainer.step())
    if (++steps == 3) own.trainer.stop();
  EXPECT_EQ(steps, 3);
  EXPECT_EQ(own.trainer.stop_reason(), StopReason::stopped);
  struct Stops final : TrainObserver {
    explicit Stops(Trainer& t) : trainer(t) {}
    void on_epoch(const RunState&, const EpochRecord&, const Evaluation*) override { trainer.stop(); }
    Trainer& trainer;
  } stops(own.trainer);
  EXPECT_EQ(own.trainer.run({&stops}).reason, StopReason::stopped);
  EXPECT_EQ(own.trainer.state().epoch, 1);
  EXPECT_EQ(own.trainer.run().reason, StopReason::epochs_done);
}

TEST(TrainerStep, TheRateBecomesAFactorOfTheSchedule) {
  auto o = small_options();
  o.schedule = {.kind = Schedule::Kind::linear, .base = 0.01, .final = 0.001, .epochs = 2};
  Own own(o);
  own.trainer.step();
  const double scheduled = o.schedule.at(0.2);
  EXPECT_EQ(own.trainer.learning_rate(), scheduled);
  own.trainer.set_learning_rate(scheduled / 4);
  own.trainer.step();
  EXPECT_EQ(own.trainer.last_step().learning_rate, scheduled / 4);
  EXPECT_EQ(own.trainer.learning_rate(), o.schedule.at(0.4) / 4);
  EXPECT_EQ(rate_factor(own.trainer.state()), 0.25);
  EXPECT_NE(message_of<InputError>([&] { own.trainer.set_learning_rate(-1); }).find("at least 0"), std::string::npos);
}

TEST(TrainerStep, EndsAfterAVoteOrAtTheTarget) {
  int asked = 0;
  auto o = small_options();
  o.interrupted = [&] { return ++asked == 5; };
  Own own(o);
  int steps = 0;
  while (own.trainer.step()) {
    ++steps;
    if (own.trainer.epoch_done()) own.trainer.end_epoch();  // the caller's choice, also after the vote
  }
  EXPECT_EQ(steps, 5);
  EXPECT_EQ(own.trainer.stop_reason(), StopReason::interrupted);
  EXPECT_EQ(own.recorder.validations.size(), 1u);
  o = small_options();
  o.target = 100;
  Own easy(o);
  while (easy.trainer.step())
    if (easy.trainer.epoch_done()) easy.trainer.end_epoch();
  EXPECT_EQ(easy.trainer.stop_reason(), StopReason::target_reached);
  EXPECT_EQ(easy.trainer.state().step, 5);
}

}  // namespace
}  // namespace keelson::testing
