#include "engine/train/trainer.hpp"

#include <gtest/gtest.h>

#include "engine/data/bag.hpp"
#include "engine/optim/adam.hpp"
#include "engine/optim/lamb.hpp"
#include "engine/optim/lars.hpp"
#include "engine/optim/muon.hpp"
#include "tests/support/contexts.hpp"
#include "tests/train/support.hpp"

namespace keelson::testing {
namespace {

TEST(Trainer, LearnsAndKeepsTheBest) {
  const Folder folder;
  auto o = small_options();
  o.epochs = 12;
  o.checkpoints.folder = folder / "checkpoints";
  Training run(o, 60, 0);
  const auto result = run.go();
  EXPECT_EQ(result.reason, StopReason::epochs_done);
  EXPECT_EQ(result.state.step, 12 * 15);
  EXPECT_EQ(result.state.samples, 12 * 60);
  ASSERT_EQ(run.recorder.metrics.size(), 12u);
  const auto& last = run.recorder.validations.back();
  EXPECT_LT(last.metric_values[1], 0.25);  // always predicting the mean: 0.5
  EXPECT_EQ(result.state.best_metric, *std::min_element(run.recorder.metrics.begin(), run.recorder.metrics.end()));
  EXPECT_EQ(read_run_state(folder / "checkpoints/best.h5").best_metric, result.state.best_metric);
  EXPECT_EQ(CheckpointFolder(folder / "checkpoints", 2).list().size(), 2u);
}

/// What a sample holds several of changes how losses and rates are told, and nothing else.
TEST(Trainer, CountsInItsUnit) {
  const auto graph = token_network();
  const TokenDataset data(18), validation(8);
  Recorder told[2];
  RunState states[2];
  std::vector<float> parameters_after[2];
  for (int words : {0, 1}) {
    auto o = small_options();
    o.texts = {{"vocabulary", "a\nb\n"}};
    o.evaluation.metrics = {std::make_shared<Perplexity>()};
    if (words) o.unit = {"word", 5};
    o.max_steps = 7;
    Parameters parameters(graph, context(network_contexts().back()), o.seed);
    Trainer trainer(graph, parameters, data, &validation, nullptr, o);
    states[words] = trainer.run({&told[words]}).state;
    parameters_after[words] = everything(parameters);
  }
  EXPECT_EQ(parameters_after[0], parameters_after[1]);
  ASSERT_EQ(told[1].losses.size(), 7u);
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_DOUBLE_EQ(told[1].losses[i], told[0].losses[i] / 5);
    EXPECT_GT(told[1].units_per_second[i], 0);
  }
  ASSERT_EQ(told[1].train_losses.size(), 1u);
  EXPECT_DOUBLE_EQ(told[1].train_losses[0], told[0].train_losses[0] / 5);
  EXPECT_DOUBLE_EQ(told[1].validations[0].loss, told[0].validations[0].loss / 5);
  EXPECT_DOUBLE_EQ(told[1].metrics[0], std::exp(told[1].validations[0].loss));
  EXPECT_EQ(states[1].loss_sum, states[0].loss_sum);
  EXPECT_EQ(states[1].loss_samples, 8);
  EXPECT_EQ(states[1].metric, told[1].metrics[0]);
  EXPECT_EQ(states[1].texts.at("vocabulary"), "a\nb\n");
}

TEST(Trainer, GivesTheSameBitsTwice) {
  Training a(small_options()), b(small_options());
  a.go();
  b.go();
  EXPECT_EQ(a.recorder.losses, b.recorder.losses);
  EXPECT_EQ(everything(a.parameters), everything(b.parameters));
  auto o = small_options();
  o.seed = 12;
  Training c(o);
  c.go();
  EXPECT_NE(a.recorder.losses, c.recorder.losses);
}

/// Each sample of other cubes as often as a list says.
class RepeatedCubes final : public Dataset {
 public:
  RepeatedCubes(const CubeDataset& cubes, std::vector<std::int64_t> samples)
      : cubes_(cubes), samples_(std::move(samples)) {}
  std::int64_t size() const override { return std::ssize(samples_); }
  const std::vector<Field>& fields() const override { return cubes_.fields(); }
  std::string describe() const override { return "repeated cubes"; }
  void read(std::int64_t index, void* const* dst) const override {
    cubes_.read(samples_[static_cast<std::size_t>(index)], dst);
  }

 private:
  const CubeDataset& cubes_;
  std::vector<std::int64_t> samples_;
};

/// With batch normalization, whose sums are weighted, too.
TEST(Trainer, ABagIsADataSetThatHasEachSampleSoOften) {
  Graph g;
  const Var x = g.input("x", {2, 6, 6, 6}), y = g.input("y", {2});
  const Var h = relu(batch_norm(conv(x, {.filters = 4}, "conv1"), {}, "norm1"));
  const Var p = dense(flatten(h), 2, "dense1");
  g.set_output("prediction", p);
  mse(p, y);
  const CubeDataset cubes(18);
  auto o = small_options();
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < cubes.size(); ++i)
    for (std::int64_t k = 0; k < bag_weight(o.seed, i); ++k) samples.push_back(i);
  const RepeatedCubes repeated(cubes, samples);
  o.epochs = 4;
  const auto losses = [&](const Dataset& data, bool bag) {
    o.batch = data.size();  // one step per epoch, so that the order does not matter
    o.bag = bag;
    Parameters parameters(g, context(network_contexts().back()), o.seed);
    Recorder recorder;
    Trainer(g, parameters, data, &cubes, nullptr, o).run({&recorder});
    recorder.losses.insert(recorder.losses.end(), recorder.train_losses.begin(), recorder.train_losses.end());
    recorder.losses.push_back(recorder.validations.back().loss);
    return recorder.losses;
  };
  const auto want = losses(repeated, false), got = losses(cubes, true), plain = losses(cubes, false);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-5 * want[i]) << i;
  EXPECT_GT(std::abs(plain[0] - want[0]), 1e-3 * want[0]);
}

TEST(Trainer, AStepWhoseSamplesAreAllOutOfTheBagMovesNothing) {
  auto o = small_options();
  o.batch = 1;
  o.bag = true;
  o.optimizer = std::make_shared<Sgd>();
  Training run(o);
  std::vector<float> before = everything(run.parameters);
  std::int64_t empty = 0;
  while (run.trainer.step()) {
    run.trainer.wait();  // so that last_step() is this step, also where the host runs ahead of the device
    const auto now = everything(run.parameters);
    const double loss = run.trainer.last_step().loss;
    EXPECT_EQ(now == before, loss == 0);
    empty += loss == 0 ? 1 : 0;
    before = now;
    if (run.trainer.epoch_done()) {
      EXPECT_GT(run.trainer.end_epoch().train_loss, 0);
    }
  }
  std::int64_t want = 0;
  for (std::int64_t i = 0; i < 18; ++i) want += bag_weight(o.seed, i) == 0 ? 1 : 0;
  EXPECT_GT(want, 0);
  EXPECT_EQ(empty, 2 * want);
  auto lars = std::make_shared<Lars>();
  auto adam = std::make_shared<Adam>();
  adam->larc.mode = ops::LarcMode::clip;
  adam->clip_norm = 1;
  for (const std::shared_ptr<const Optimizer>& other :
       {std::shared_ptr<const Optimizer>(lars), std::shared_ptr<const Optimizer>(adam),
        std::shared_ptr<const Optimizer>(std::make_shared<Lamb>()),
        std::shared_ptr<const Optimizer>(std::make_shared<Muon>())}) {
    o.optimizer = other;
    Training finite(o);
    finite.go();
    for (const float v : everything(finite.parameters)) ASSERT_TRUE(std::isfinite(v)) << other->to_string();
  }
}

TEST(Trainer, ABagIsResumedBitForBit) {
  const Folder folder;
  auto o = small_options();
  o.bag = true;
  Training whole(o);
  whole.go();
  o.checkpoints.folder = folder / "c";
  o.max_steps = 7;  // in the second epoch
  Training(o).go();
  o.max_steps = -1;
  Training rest(o);
  rest.trainer.resume(find_checkpoint(folder / "c", false));
  rest.go();
  EXPECT_EQ(everything(rest.parameters), everything(whole.parameters));
  EXPECT_EQ(rest.recorder.train_losses.back(), whole.recorder.train_losses.back());
}

class Resume : public ::testing::TestWithParam<int> {
 protected:
  void continues_bit_for_bit(std::shared_ptr<const Optimizer> optimizer);
};

/// 18 samples in batches of 4: five steps per epoch, the last of two samples.
TEST_P(Resume, ContinuesBitForBit) {
  for (const std::shared_ptr<const Optimizer>& optimizer : {std::shared_ptr<const Optimizer>(std::make_shared<Adam>()),
                                                            {std::make_shared<Lars>()},
                                                            {std::make_shared<Lamb>()},
                                                            {std::make_shared<Muon>()}})
    continues_bit_for_bit(optimizer);
}

void Resume::continues_bit_for_bit(std::shared_ptr<const Optimizer> optimizer) {
  const Folder folder;
  auto o = small_options();
  o.epochs = 3;
  o.transform = std::make_shared<Flip>();
  o.optimizer = std::move(optimizer);
  o.schedule.kind = Schedule::Kind::cosine;
  o.schedule.epochs = 3;
  Training whole(o);
  whole.go();

  auto first = o;
  first.checkpoints.folder = folder.path();
  first.max_steps = GetParam();
  Training a(first);
  EXPECT_EQ(a.go().state.step, GetParam());
  auto second = o;
  second.checkpoints.folder = folder.path();
  Training b(second);
  b.trainer.resume(find_checkpoint(folder.path(), false));
  const auto result = b.go();

  auto losses = a.recorder.losses;
  losses.insert(losses.end(), b.recorder.losses.begin(), b.recorder.losses.end());
  EXPECT_EQ(losses, whole.recorder.losses);
  auto metrics = a.recorder.metrics;
  metrics.insert(metrics.end(), b.recorder.metrics.begin(), b.recorder.metrics.end());
  EXPECT_EQ(metrics, whole.recorder.metrics);
  EXPECT_EQ(everything(b.parameters), everything(whole.parameters));
  EXPECT_EQ(result.state.best_metric, whole.trainer.state().best_metric);
}

INSTANTIATE_TEST_SUITE_P(At, Resume, ::testing::Values(0, 2, 5, 9),
                         [](const auto& i) { return "step" + std::to_string(i.param); });

TEST(Trainer, StopsWhenAskedAndContinues) {
  const Folder folder;
  Training whole(small_options());
  whole.go();
  int asked = 0;
  auto o = small_options();
  o.checkpoints.folder = folder.path();
  o.interrupted = [&] { return ++asked == 5; };  // in the last step of the epoch: the validation is still to come
  Training a(o);
  const auto stopped = a.go();
  EXPECT_EQ(stopped.reason, StopReason::interrupted);
  EXPECT_EQ(stopped.state.step, 5);
  EXPECT_TRUE(a.recorder.metrics.empty());
  o.interrupted = nullptr;
  Training b(o);
  b.trainer.resume(find_checkpoint(folder.path(), false));
  b.go();
  EXPECT_EQ(b.recorder.metrics, whole.recorder.metrics);
  EXPECT_EQ(everything(b.parameters), everything(whole.parameters));
}

TEST(Trainer, StopsAtItsTargetAndBeforeItsTimeLimit) {
  auto o = small_options();
  o.target = 100;
  Training easy(o);
  EXPECT_EQ(easy.go().reason, StopReason::target_reached);
  EXPECT_EQ(easy.trainer.state().epoch, 1);
  const Folder folder;
  o = small_options();
  o.time_limit = 1e-3;
  o.checkpoints.folder = folder.path();
  Training late(o);
  const auto result = late.go();
  EXPECT_EQ(result.reason, StopReason::time_limit);
  EXPECT_EQ(result.state.step, 1);
  EXPECT_EQ(folder.files(), std::vector<std::string>{"step-0000000001.h5"});
}

TEST(Trainer, WritesTheInitialCheckpoint) {
  const Folder folder;
  auto o = small_options();
  o.checkpoints.folder = folder.path();
  o.max_steps = 0;
  Training run(o);
  EXPECT_EQ(run.go().reason, StopReason::max_steps);
  EXPECT_EQ(folder.files(), std::vector<std::string>{"step-0000000000.h5"});
  Training other(small_options());
  load_checkpoint(folder / "step-0000000000.h5", "small", other.parameters, std::vector<std::string>{"momentum"},
                  nullptr);
  EXPECT_EQ(everything(run.parameters), everything(other.parameters));
}

TEST(Trainer, FollowsItsSchedule) {
  auto o = small_options();
  o.schedule.kind = Schedule::Kind::steps;
  o.schedule.warmup_epochs = 1;
  o.schedule.steps = parse_steps("1:0.5");
  Training run(o);
  run.go();
  ASSERT_EQ(run.recorder.rates.size(), 10u);
  EXPECT_EQ(run.recorder.rates[0], 0);
  EXPECT_NEAR(run.recorder.rates[2], 0.02 * 2 / 5, 1e-12);
  for (int i = 5; i < 10; ++i) EXPECT_EQ(run.recorder.rates[static_cast<std::size_t>(i)], 0.01);
}

TEST(Trainer, NamesWhereALossThatIsNotFiniteCameFrom) {
  const Folder folder;
  auto o = small_options();
  o.shuffle = false;
  o.checkpoints.folder = folder.path();
  o.checkpoints.steps = 1;
  Training data(o);
  data.training.poisoned = 9;  // in the third batch
  auto text = message_of<Error>([&] { data.go(); });
  EXPECT_NE(text.find("in step 3 (epoch 1)"), std::string::npos) << text;
  EXPECT_NE(text.find("input x"), std::string::npos) << text;
  EXPECT_NE(text.find("step-0000000002.h5"), std::string::npos) << text;
  EXPECT_EQ(read_run_state(find_checkpoint(folder.path(), false)).step, 2);

  o = small_options();
  o.schedule.base = 1e30;
  Training wild(o);
  text = message_of<Error>([&] { wild.go(); });
  EXPECT_NE(text.find("the loss became"), std::string::npos) << text;
  // After one such step conv1 gives values near 1e30, and dense1, with weights as large, the first infinite ones.
  EXPECT_NE(text.find("layer dense1"), std::string::npos) << text;
}

TEST(Trainer, AValidationLossThatIsNotFiniteEndsTheRunWithoutACheckpoint) {
  const Folder folder;
  auto o = small_options();
  o.checkpoints.folder = folder.path();
  Training run(o);
  run.validation.poisoned = 3;
  const auto text = message_of<Error>([&] { run.go(); });
  EXPECT_NE(text.find("evaluation on 7 cubes gives a loss of NaN"), std::string::npos) << text;
  EXPECT_NE(text.find("input x"), std::string::npos) << text;
  EXPECT_EQ(folder.files(), std::vector<std::string>());
}

TEST(Trainer, RefusesDataWithoutAFieldForAnInput) {
  Graph net = small_network(0);
  net.input("mask", {6});
  Parameters parameters(net, context(network_contexts().back()), 1);
  const CubeDataset data(8);
  const auto options = small_options();
  for (const auto& text :
       {message_of<InputError>([&] { Trainer(net, parameters, data, nullptr, nullptr, options); }),
        message_of<InputError>([&] { Evaluator(net, parameters, data, nullptr, EvaluatorOptions()); })}) {
    EXPECT_NE(text.find("no field of the data is called 'mask', which the network reads (1x6 for a sample)"), text.npos)
        << text;
    EXPECT_NE(text.find("Found: x, y"), text.npos) << text;
  }
}

TEST(Trainer, RefusesWhatDoesNotFit) {
  EXPECT_NE(message_of<InputError>([] { Training(small_options(), 3); }).find("larger than the training data"),
            std::string::npos);
  EXPECT_NE(
      message_of<InputError>([] { require_enough_samples(3, 1, 4, "3 cubes"); }).find("4 ranks for 3 training samples"),
      std::string::npos);
  Graph other = small_network(0, 8, 8);
  Parameters parameters(other, context(network_contexts().back()), 1);
  const CubeDataset data(8, 6);
  const auto text =
      message_of<InputError>([&] { Trainer(other, parameters, data, nullptr, nullptr, small_options()); });
  EXPECT_NE(text.find("2x6x6x6"), std::string::npos) << text;
  EXPECT_NE(text.find("4x2x8x8x8"), std::string::npos) << text;

  const Folder folder;
  auto o = small_options();
  o.checkpoints.folder = folder.path();
  o.max_steps = 2;
  Training(o).go();
  const auto resume_with = [&](auto change) {
    auto changed = small_options();
    change(changed);
    return message_of<InputError>([&] { Training(changed).trainer.resume(find_checkpoint(folder.path(), false)); });
  };
  EXPECT_NE(resume_with([](auto& c) { c.batch = 3; }).find("resume with ranks x batch = 4"), std::string::npos);
  EXPECT_NE(resume_with([](auto& c) { c.seed = 1; }).find("seed 11, not 1"), std::string::npos);
  EXPECT_NE(resume_with([](auto& c) { c.optimizer = std::make_shared<Adam>(); }).find("not 'adam "), std::string::npos);
  EXPECT_NE(resume_with([](auto& c) { c.optimizer = std::make_shared<Sgd>(); }).find("needs none"), std::string::npos);
}

TEST(Trainer, RefusesAnotherOptimizerOfTheSameOrOfNoMoments) {
  const Folder folder;
  auto o = small_options();
  o.optimizer = std::make_shared<Adam>();
  o.checkpoints.folder = folder.path();
  o.max_steps = 2;
  Training(o).go();
  for (const std::shared_ptr<const Optimizer>& optimizer :
       {std::shared_ptr<const Optimizer>(std::make_shared<Sgd>()), {std::make_shared<AdamW>()}}) {
    auto other = small_options();
    other.optimizer = optimizer;
    const auto text =
        message_of<InputError>([&] { Training(other).trainer.resume(find_checkpoint(folder.path(), false)); });
    EXPECT_NE(text.find("was trained with the optimizer 'adam "), std::string::npos) << text;
  }
}

/// Losses of this configuration as first computed; another backend, compiler or processor changes them by rounding
/// only.
TEST(Trainer, ReproducesStoredLosses) {
  const std::vector<double> stored{0.3058294, 0.3819993, 0.2762506, 0.5751958, 0.2200300,
                                   0.4295841, 0.2045741, 0.2823339, 0.1954048, 0.2096203};
  for (const auto& where : network_contexts()) {
    auto o = small_options();
    o.schedule.base = 0.01;
    Training run(o, 18, 0.25f, where);
    run.go();
    ASSERT_EQ(run.recorder.losses.size(), stored.size()) << where;
    for (std::size_t i = 0; i < stored.size(); ++i)
      EXPECT_NEAR(run.recorder.losses[i], stored[i], 2e-5 * stored[i]) << where << " step " << i + 1;
  }
}

}  // namespace
}  // namespace keelson::testing
