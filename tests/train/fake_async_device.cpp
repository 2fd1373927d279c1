#include <gtest/gtest.h>

#include "tests/support/contexts.hpp"
#include "tests/support/fake_async_context.hpp"
#include "tests/train/support.hpp"

/// Training on a device that the host runs ahead of.
namespace keelson::testing {
namespace {

/// As small_network(), but no sum that is rounded otherwise can let another element win, or another branch be taken.
Graph smooth_network() {
  Graph g;
  const Var x = g.input("x", {2, 6, 6, 6}), y = g.input("y", {2});
  Var h = average_pool(tanh(conv(x, {.filters = 6}, "conv1")), 2);
  h = dropout(tanh(dense(flatten(h), 8, "dense1")), 0.25f, "drop1");
  const Var p = dense(h, 2, "dense2");
  g.set_output("prediction", p);
  mse(p, y);
  return g;
}

struct AsyncTraining {
  explicit AsyncTraining(const TrainerOptions& options, Context* where = nullptr, std::int64_t samples = 18,
                         float dropout = 0.25f)
      : AsyncTraining(small_network(dropout), options, where, samples) {}
  AsyncTraining(Graph network, const TrainerOptions& options, Context* where = nullptr, std::int64_t samples = 18)
      : fake(make_fake_async_context()),
        graph(std::move(network)),
        parameters(graph, where ? *where : *fake, options.seed),
        training(samples),
        validation(samples < 60 ? 7 : 32, 6, 99),
        trainer(graph, parameters, training, &validation, nullptr, options) {}
  TrainResult go() { return trainer.run({&recorder}); }
  std::unique_ptr<Context> fake;
  Graph graph;
  Parameters parameters;
  CubeDataset training, validation;
  Trainer trainer;
  Recorder recorder;
};

TEST(AsyncTraining, IsThatOfTheHost) {
  auto o = small_options();
  o.epochs = 3;
  AsyncTraining fake(smooth_network(), o), near(smooth_network(), o, &context("kokkos"));
  const auto got = fake.go(), want = near.go();
  EXPECT_EQ(got.state.step, want.state.step);
  ASSERT_EQ(fake.recorder.losses.size(), near.recorder.losses.size());
  for (std::size_t i = 0; i < near.recorder.losses.size(); ++i)
    EXPECT_NEAR(fake.recorder.losses[i], near.recorder.losses[i], 1e-5 * near.recorder.losses[i]) << i;
  for (std::size_t i = 0; i < near.recorder.metrics.size(); ++i)
    EXPECT_NEAR(fake.recorder.metrics[i], near.recorder.metrics[i], 1e-5) << i;
  EXPECT_NEAR(got.state.best_metric, want.state.best_metric, 1e-5);
}

TEST(AsyncTraining, ResumesBitForBitAlsoInFp16) {
  for (const auto precision : {Precision::fp32, Precision::fp16}) {
    const Folder folder;
    auto o = small_options();
    o.precision = precision;
    AsyncTraining whole(o);
    whole.go();
    o.checkpoints.folder = folder.path();
    o.max_steps = 7;
    AsyncTraining half(o);
    EXPECT_EQ(half.go().reason, StopReason::max_steps);
    o.max_steps = -1;
    AsyncTraining rest(o);
    rest.trainer.resume(find_checkpoint(folder.path(), false));
    rest.go();
    EXPECT_EQ(everything(rest.parameters), everything(whole.parameters));
    const auto& all = whole.recorder.losses;
    EXPECT_EQ(rest.recorder.losses, std::vector<double>(all.begin() + 7, all.end()));
    if (precision == Precision::fp16) {
      EXPECT_EQ(read_run_state(find_checkpoint(folder.path(), false)).loss_scale, 65536);
    }
  }
}

TEST(AsyncTraining, StopsForALossThatIsNotFiniteAndHasMovedNothing) {
  const Folder folder;
  auto o = small_options();
  o.checkpoints.folder = folder.path();
  o.checkpoints.steps = 2;
  o.shuffle = false;
  AsyncTraining run(o);
  run.training.poisoned = 9;  // in the third batch
  const auto text = message_of<Error>([&] { run.go(); });
  EXPECT_NE(text.find("in step 3 (epoch 1)"), std::string::npos) << text;
  EXPECT_NE(text.find("step-0000000002.h5"), std::string::npos) << text;
  for (float v : everything(run.parameters)) ASSERT_TRUE(std::isfinite(v));
}

/// Validation errors of short values are at most 3 % above those of long ones.
TEST(AsyncTraining, LearnsAsWellInShortPrecision) {
  double metric[3];
  const Precision precisions[] = {Precision::fp32, Precision::bf16, Precision::fp16};
  for (int i = 0; i < 3; ++i) {
    auto o = small_options();
    o.precision = precisions[i];
    o.epochs = 30;
    o.schedule.base = 0.01;
    AsyncTraining run(o, nullptr, 64, 0);
    metric[i] = run.go().state.best_metric;
    std::printf("%s: %.5f\n", std::string(to_string(o.precision)).c_str(), metric[i]);
  }
  EXPECT_LT(metric[0], 0.2);  // always predicting the mean: 0.5
  for (int i = 1; i < 3; ++i) EXPECT_LE(metric[i], 1.03 * metric[0]) << to_string(precisions[i]);
}

TEST(AsyncTraining, TakesTheModelOfTheHostAndGivesItBack) {
  const Folder folder;
  auto o = small_options();
  o.checkpoints.folder = folder.path();
  o.epochs = 1;
  AsyncTraining near(o, &context("kokkos"));
  near.go();
  o.epochs = 2;
  o.precision = Precision::bf16;
  AsyncTraining fake(o);
  fake.trainer.resume(find_checkpoint(folder.path(), false));
  fake.go();
  o.epochs = 3;
  o.precision = Precision::fp32;
  AsyncTraining back(o, &context("kokkos"));
  back.trainer.resume(find_checkpoint(folder.path(), false));
  EXPECT_EQ(back.trainer.state().epoch, 2);
  EXPECT_EQ(everything(back.parameters), everything(fake.parameters));
  EXPECT_EQ(back.go().state.epoch, 3);
}

/// The losses and metrics of a run on the fake device, and its parameters at the end.
struct CodedRun {
  explicit CodedRun(const TrainerOptions& options, bool codes, bool by_hand = false)
      : training(18, codes), validation(7, codes), graph(small_network()), fake(make_fake_async_context()) {
    Parameters parameters(graph, *fake, options.seed);
    Trainer trainer(graph, parameters, training, &validation, nullptr, options);
    if (by_hand) {  // the caller's batches are decoded, whatever the data set could give
      Loader loader(training, {.batch = options.batch, .seed = options.seed});
      loader.start_epoch(0);
      while (const Batch* batch = loader.next()) trainer.step(*batch);
      trainer.wait();
    } else {
      trainer.run({&recorder});
    }
    last = everything(parameters);
  }
  CodedCubes training, validation;
  Graph graph;
  std::unique_ptr<Context> fake;
  Recorder recorder;
  std::vector<float> last;
};

/// Samples go to the device one by one, as codes or as numbers, and in 16 bits, too.
TEST(AsyncTraining, IsThatOfTheHostAlsoSampleBySample) {
  auto o = small_options();
  o.epochs = 3;
  o.exchange.reproducible = true;
  AsyncTraining fake(o), near(o, &context("kokkos"));
  fake.go(), near.go();
  ASSERT_EQ(fake.recorder.losses.size(), near.recorder.losses.size());
  for (std::size_t i = 0; i < near.recorder.losses.size(); ++i)
    EXPECT_NEAR(fake.recorder.losses[i], near.recorder.losses[i], 1e-5 * near.recorder.losses[i]) << i;
  for (std::size_t i = 0; i < near.recorder.metrics.size(); ++i)
    EXPECT_NEAR(fake.recorder.metrics[i], near.recorder.metrics[i], 1e-5) << i;
  const CodedRun device(o, true), host(o, false);
  EXPECT_GT(device.training.code_reads, 0);
  EXPECT_EQ(device.recorder.losses, host.recorder.losses);
  EXPECT_EQ(device.recorder.metrics, host.recorder.metrics);
  EXPECT_EQ(device.last, host.last);
  o.precision = Precision::fp16;
  AsyncTraining half(o);
  half.go();
  for (std::size_t i = 0; i < near.recorder.losses.size(); ++i)
    EXPECT_NEAR(half.recorder.losses[i], near.recorder.losses[i], 0.05 * near.recorder.losses[i]) << i;
}

TEST(AsyncTraining, DecodesOnTheDeviceToTheSameBits) {
  auto o = small_options();
  o.epochs = 3;
  const CodedRun device(o, true), host(o, false);
  EXPECT_GT(device.training.code_reads, 0);
  EXPECT_GT(device.validation.code_reads, 0);
  EXPECT_EQ(host.training.code_reads, 0);
  EXPECT_EQ(device.recorder.losses, host.recorder.losses);
  EXPECT_EQ(device.recorder.metrics, host.recorder.metrics);
  EXPECT_EQ(device.last, host.last);
  o.transform = std::make_shared<Flip>();  // which the device does not know
  const CodedRun flipped(o, true), flipped_host(o, false);
  EXPECT_EQ(flipped.training.code_reads, 0);
  EXPECT_EQ(flipped.last, flipped_host.last);
}

TEST(AsyncTraining, TakesDecodedBatchesOfTheCallerToo) {
  const CodedRun codes(small_options(), true, true), values(small_options(), false, true);
  EXPECT_EQ(codes.last, values.last);
}

}  // namespace
}  // namespace keelson::testing
