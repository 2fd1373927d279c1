#include <gtest/gtest.h>

#include <fstream>
#include <optional>

#include "engine/data/hdf5/hdf5.hpp"
#include "engine/layers/layers.hpp"
#include "tests/train/support.hpp"

/// Runs that go back to a checkpoint, in a folder that holds more than this checkpoint.
namespace keelson::testing {
namespace {

using Names = std::vector<std::string>;

Names names_in(const std::filesystem::path& folder) {
  Names names;
  for (const auto& e : std::filesystem::directory_iterator(folder)) names.push_back(e.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// What a trainer tells of checkpoints that it has set aside, in the order of the calls.
struct SetAside final : TrainObserver {
  Names calls;
  void on_start(const RunState&, const std::filesystem::path&) override { calls.emplace_back("start"); }
  void on_set_aside(const RunState& s, const std::filesystem::path& folder) override {
    calls.push_back(fmt::format("{} at {}", folder.filename().string(), s.step));
  }
};

/// 24 samples in batches of 4: six steps per epoch.
struct GoingRun : Training {
  explicit GoingRun(const TrainerOptions& o) : Training(o, 24) {}
  TrainResult go() { return trainer.run({&recorder, &aside}); }
  SetAside aside;
};

TrainerOptions into(const Folder& folder, std::int64_t max_steps, std::int64_t every, int keep) {
  auto o = small_options();
  o.epochs = 3;
  o.checkpoints.folder = folder / "c";
  o.max_steps = max_steps;
  o.checkpoints.steps = every;
  o.checkpoints.keep = keep;
  return o;
}

TEST(GoingBack, KeepsWhatItWritesAndSetsTheRestAside) {
  const Folder folder;
  const CheckpointFolder checkpoints(folder / "c", 5);
  GoingRun first(into(folder, 12, 2, 5));
  first.go();
  ASSERT_EQ(checkpoints.list().size(), 5u);
  GoingRun second(into(folder, 6, 1, 2));
  second.trainer.resume(checkpoints.path_of(4));
  second.go();
  EXPECT_EQ(names_in(folder / "c"), (Names{"abandoned-1", "best.h5", "step-0000000005.h5", "step-0000000006.h5"}));
  EXPECT_EQ(names_in(folder / "c/abandoned-1"),
            (Names{"best.h5", "step-0000000006.h5", "step-0000000008.h5", "step-0000000010.h5", "step-0000000012.h5"}));
  EXPECT_EQ(read_run_state(checkpoints.best()).step, 6);
  EXPECT_EQ(find_checkpoint(folder / "c", false), checkpoints.path_of(6));
  EXPECT_EQ(second.aside.calls, (Names{"start", "abandoned-1 at 4"}));
  // The next run goes on with this one, and what was set aside can be resumed, too.
  GoingRun third(into(folder, 8, 1, 2));
  third.trainer.resume(folder / "c");
  EXPECT_EQ(third.trainer.state().step, 6);
  third.go();
  EXPECT_EQ(third.aside.calls, Names{"start"});
  GoingRun back(into(folder, 13, 0, 2));
  back.trainer.resume(folder / "c/abandoned-1");
  EXPECT_EQ(back.trainer.state().step, 12);
  back.go();
  EXPECT_EQ(names_in(folder / "c"), (Names{"abandoned-1", "abandoned-2", "step-0000000013.h5"}));
  EXPECT_EQ(names_in(folder / "c/abandoned-2"), (Names{"best.h5", "step-0000000007.h5", "step-0000000008.h5"}));
}

/// The limit of steps is that of the checkpoint, or lies before it: nothing follows that could take the others' place.
TEST(GoingBack, ARunThatMakesNoStepLeavesLaterCheckpoints) {
  const Folder folder;
  GoingRun(into(folder, 12, 2, 5)).go();
  const auto before = names_in(folder / "c");
  for (const std::int64_t limit : {4, 3}) {
    GoingRun none(into(folder, limit, 1, 2));
    none.trainer.resume(folder / "c/step-0000000004.h5");
    EXPECT_EQ(none.go().reason, StopReason::max_steps);
    EXPECT_EQ(names_in(folder / "c"), before);
    EXPECT_EQ(none.aside.calls, Names{"start"});
    // A checkpoint that the caller asks for is one of this run.
    none.trainer.save_checkpoint();
    none.trainer.wait();
    EXPECT_EQ(none.aside.calls, (Names{"start", "abandoned-1 at 4"}));
    std::filesystem::remove_all(folder / "c");
    GoingRun(into(folder, 12, 2, 5)).go();
  }
}

/// As a script of Python that is run again.
TEST(GoingBack, ANewRunSetsAsideWhatAnotherHasWritten) {
  const Folder folder;
  GoingRun(into(folder, 12, 2, 5)).go();
  GoingRun again(into(folder, 2, 1, 2));
  EXPECT_EQ(names_in(folder / "c").size(), 6u) << "a run that fails before its first checkpoint changes nothing";
  again.go();
  EXPECT_EQ(names_in(folder / "c"), (Names{"abandoned-1", "step-0000000001.h5", "step-0000000002.h5"}));
  EXPECT_EQ(names_in(folder / "c/abandoned-1").size(), 6u);
  EXPECT_EQ(again.aside.calls, (Names{"start", "abandoned-1 at 1"}));
}

CheckpointCopy copy_with(std::int64_t step, std::int64_t epoch, std::int64_t step_in_epoch, std::int64_t best_epoch) {
  CheckpointCopy copy{.parameters = {"dense/bias"}};
  copy.arrays.push_back({"/parameters/dense/bias", {1}, {0.0f}});
  copy.state.step = step;
  copy.state.epoch = epoch;
  copy.state.step_in_epoch = step_in_epoch;
  copy.state.best_epoch = best_epoch;
  copy.best = best_epoch == epoch && step_in_epoch == 0;
  return copy;
}

TEST(GoingBack, TheBestIsThatOfTheStepsBefore) {
  const Folder folder;
  const CheckpointFolder checkpoints(folder.path(), 9);
  for (const auto& copy : {copy_with(3, 1, 0, 1), copy_with(5, 1, 2, 1), copy_with(6, 2, 0, 2), copy_with(7, 2, 1, 2)})
    checkpoints.write(copy);
  EXPECT_EQ(read_run_state(checkpoints.best()).step, 6);
  const auto from = read_run_state(checkpoints.path_of(5));
  EXPECT_EQ(checkpoints.set_aside(&from), folder / "abandoned-1");
  EXPECT_EQ(read_run_state(checkpoints.best()).step, 3);
  EXPECT_EQ(read_run_state(folder / "abandoned-1/best.h5").step, 6);
  EXPECT_EQ(checkpoints.set_aside(&from), "") << "there is nothing more";
}

TEST(GoingBack, PruningLeavesTheCheckpointJustWrittenAndLaterOnes) {
  const Folder folder;
  const CheckpointFolder checkpoints(folder.path(), 1);
  for (const std::int64_t step : {10, 12, 5, 6}) checkpoints.write(copy_with(step, 0, step, -1));
  EXPECT_EQ(folder.files(), (Names{"step-0000000006.h5", "step-0000000012.h5"}));
}

TEST(GoingBack, OnlyNamesOfOursAreCheckpoints) {
  const Folder folder;
  const CheckpointFolder checkpoints(folder.path(), 1);
  checkpoints.write(copy_with(3, 0, 3, -1));
  const Names others{"step-9.h5",          "step-0000000009-old.h5", "step-00000000009.h5",
                     "step-000000000x.h5", "step-+000000009.h5",     "step--000000009.h5",
                     "step-best.h5",       "step-0000000009.h5.bak", "my-step-0000000009.h5"};
  for (const auto& name : others) std::ofstream(folder / name) << "mine";
  std::filesystem::create_directory(folder / "step-0000000008.h5");
  EXPECT_EQ(find_checkpoint(folder.path(), false), checkpoints.path_of(3));
  checkpoints.write(copy_with(4, 0, 4, -1));
  EXPECT_EQ(folder.files().size(), others.size() + 2) << "and only they are removed";
  checkpoints.write(copy_with(12'345'678'901, 0, 4, -1));
  EXPECT_EQ(find_checkpoint(folder.path(), false).filename(), "step-12345678901.h5");
}

/// A run that was interrupted between the last step of an epoch and its validation.
TEST(GoingBack, ALimitDoesNotSkipTheValidation) {
  for (const bool own_loop : {false, true}) {
    const Folder folder;
    int asked = 0;
    auto o = into(folder, -1, 0, 9);
    o.checkpoints.epochs = 0;
    o.interrupted = [&] { return ++asked == 6; };
    GoingRun first(o);
    EXPECT_EQ(first.go().state.step, 6);
    EXPECT_TRUE(first.recorder.metrics.empty());
    o.interrupted = nullptr;
    o.max_steps = 6;
    GoingRun second(o);
    second.trainer.resume(folder / "c");
    if (own_loop) {
      second.trainer.observe({&second.recorder});
      EXPECT_FALSE(second.trainer.step());
      EXPECT_TRUE(second.trainer.epoch_done()) << "the validation is still to come";
      second.trainer.end_epoch();
      second.trainer.save_checkpoint();
      second.trainer.wait();
    } else {
      EXPECT_EQ(second.go().reason, StopReason::max_steps);
    }
    EXPECT_EQ(second.recorder.metrics.size(), 1u);
    o.max_steps = 7;
    GoingRun third(o);
    third.trainer.resume(folder / "c");
    EXPECT_EQ(third.trainer.state().epoch, 1) << "the checkpoint knows of the validation";
    third.go();
    EXPECT_TRUE(third.recorder.metrics.empty());
  }
}

template <class Trains>
void expect_refusal(Trains& run, const std::filesystem::path& checkpoint, const std::string& says) {
  const auto before = everything(run.parameters);
  const auto text = message_of<InputError>([&] { run.trainer.resume(checkpoint); });
  EXPECT_NE(text.find(says), std::string::npos) << text;
  EXPECT_EQ(everything(run.parameters), before) << says;
  EXPECT_EQ(run.trainer.state().step, 0);
}

TEST(GoingBack, ARefusedResumeChangesNothing) {
  const Folder folder;
  GoingRun(into(folder, 2, 0, 2)).go();
  const auto refused_with = [&](auto change, const std::string& says) {
    auto o = into(folder, 2, 0, 2);
    change(o);
    GoingRun run(o);
    expect_refusal(run, folder / "c", says);
  };
  refused_with([](auto& o) { o.seed = 12; }, "was trained with seed 11, not 12");
  refused_with([](auto& o) { o.batch = 3; }, "resume with ranks x batch = 4");
  Training fewer(into(folder, 2, 0, 2), 20);
  expect_refusal(fewer, folder / "c", "within an epoch of 24 training samples, but the data has 20");
}

/// Sequences of the running sum of noise.
struct Recurrent {
  explicit Recurrent(const TrainerOptions& options, std::int64_t hidden = 3)
      : graph([&] {
          Graph g;
          const auto x = g.input("x", {5}, DType::s32), y = g.input("y", {5}, DType::s32);
          const auto h = lstm(embedding(x, {12, 6}, "embedding"), {.hidden = hidden}, "lstm");
          loss(dense(h, 12, "output"), y, {.kind = ops::LossKind::cross_entropy, .sum_rows = true});
          return g;
        }()),
        parameters(graph, context(network_contexts().back()), options.seed),
        training(24),
        trainer(graph, parameters, training, nullptr, nullptr, options) {}
  Graph graph;
  Parameters parameters;
  TokenDataset training;
  Trainer trainer;
};

TEST(GoingBack, ACheckpointWithoutItsRecurrentStatesIsRefusedAndChangesNothing) {
  const Folder folder;
  auto o = into(folder, 2, 0, 2);
  o.evaluation.metrics.clear();
  Recurrent first(o);
  first.trainer.run();
  Recurrent again(o);
  again.trainer.resume(folder / "c");
  EXPECT_EQ(everything(again.parameters), everything(first.parameters));
  auto copy = copy_run(first.trainer.state(), first.parameters, moment_names(*o.optimizer));
  write_checkpoint(folder / "without.h5", copy);
  Recurrent other(o);
  expect_refusal(other, folder / "without.h5", "its recurrent state lstm1_state is missing, expected (4, 2, 3)");
  copy.state.carried["lstm1_state"] = {{3, 2, 3}, std::vector<float>(18)};
  write_checkpoint(folder / "of-three.h5", copy);
  expect_refusal(other, folder / "of-three.h5", "its recurrent state lstm1_state is (3, 2, 3), expected (4, 2, 3)");
}

}  // namespace
}  // namespace keelson::testing
