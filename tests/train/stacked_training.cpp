#include "engine/train/stack/stacked_training.hpp"

#include <gtest/gtest.h>

#include "engine/base/error.hpp"
#include "engine/optim/adam.hpp"
#include "engine/train/metrics/perplexity.hpp"
#include "tests/train/support.hpp"

/// Many networks at once: each is, bit for bit, what it is alone.
namespace keelson::testing {
namespace {

/// dense -> batch normalization -> ReLU -> dropout -> dense, on the voxels of a cube.
Graph dense_network(std::int64_t units = 12) {
  Graph g;
  const Var x = g.input("x", {2, 6, 6, 6}), y = g.input("y", {2});
  Var h = dense(flatten(x), units, "dense1");
  h = dropout(relu(batch_norm(h, {}, "norm1")), 0.25f, "drop1");
  const Var p = dense(relu(dense(h, 7, "dense2")), 2, "dense3");
  g.set_output("prediction", p);
  mse(p, y);
  return g;
}

std::shared_ptr<const Graph> shared(Graph g) { return std::make_shared<const Graph>(std::move(g)); }

std::shared_ptr<const Optimizer> clipped_adam(float clip_norm) {
  auto o = std::make_shared<Adam>();
  o->clip_norm = clip_norm;
  o->larc.mode = ops::LarcMode::clip;
  return o;
}

std::shared_ptr<const Optimizer> decaying_sgd(float decay) {
  auto o = std::make_shared<Sgd>();
  o->momentum = 0.9f;
  o->weight_decay = decay;
  return o;
}

std::vector<std::shared_ptr<Metric>> mean_error() { return {std::make_shared<MeanAbsoluteError>()}; }

class StackedTrainingTest : public ::testing::TestWithParam<std::string> {
 protected:
  Context& ctx() { return context(GetParam()); }

  /// What a member becomes.
  struct Result {
    std::vector<float> parameters;
    std::vector<double> numbers;
    std::string failure;
    bool operator==(const Result&) const = default;
  };
  static Result result_of(StackedTraining& t, std::size_t m) {
    const StackedRecord& r = t.record(m);
    const RunState& s = r.state;
    return {everything(t.parameters(m)),
            {static_cast<double>(s.step), static_cast<double>(s.epoch), r.train_loss, s.validation_loss, s.metric,
             s.best_metric, static_cast<double>(s.best_epoch)},
            r.failure};
  }
  Result alone(const StackedMember& member, StackedOptions o) {
    o.workers = 1;
    o.block_bytes = 1 << 24;
    StackedTraining t(ctx(), {member}, training, &validation, o);
    t.run();
    return result_of(t, 0);
  }
  /// Trains all at once on two workers, and each alone.
  void expect_as_alone(const std::vector<StackedMember>& members, StackedOptions o = {}) {
    o.batch = 4;
    o.seed = 3;
    o.block_bytes = 10000;  // two batches
    o.workers = std::min(2, ctx().device().current_instance().concurrency());
    StackedTraining t(ctx(), members, training, &validation, o);
    t.run();
    for (std::size_t m = 0; m < members.size(); ++m) {
      const Result here = result_of(t, m);
      EXPECT_FALSE(here.parameters.empty());
      EXPECT_TRUE(here == alone(members[m], o)) << "member " << m;
    }
  }
  static StackedMember member(std::shared_ptr<const Graph> graph, std::uint64_t seed, double rate = 0.01) {
    StackedMember m{.name = "small", .graph = std::move(graph), .seed = seed, .epochs = 2};
    m.schedule.base = rate;
    m.metrics = mean_error();
    return m;
  }

  const CubeDataset training{18}, validation{7, 6, 99};
};

TEST_P(StackedTrainingTest, DenseMembersAreWhatTheyAreAlone) {
  const auto graph = shared(dense_network());
  const std::shared_ptr<const Optimizer> optimizers[] = {clipped_adam(1e-3f), decaying_sgd(0.1f), decaying_sgd(0)};
  std::vector<StackedMember> members;
  for (std::uint64_t i = 0; i < 7; ++i) {
    members.push_back(member(graph, i, 0.001 * static_cast<double>(i + 1)));
    members.back().optimizer = optimizers[i % 3];
  }
  expect_as_alone(members);
}

TEST_P(StackedTrainingTest, VolumesOfDifferentWidthsAndLengthsAreWhatTheyAreAlone) {
  std::vector<StackedMember> members;
  for (int i = 0; i < 5; ++i) {
    members.push_back(member(shared(small_network(0.25f, 4 + 3 * i)), 5));
    members.back().epochs = 1 + i % 3;
    members.back().optimizer = decaying_sgd(0.01f);
  }
  members.push_back(member(shared(dense_network(20)), 9));
  StackedOptions flips;
  flips.transform = std::make_shared<Flip>();
  expect_as_alone(members, flips);
}

TEST_P(StackedTrainingTest, SettingsOfAMemberMatterToTheMemberAlone) {
  const auto graph = shared(dense_network());
  std::vector<StackedMember> members(4, member(graph, 1));
  for (auto& m : members) m.optimizer = clipped_adam(1);
  members[1].optimizer = clipped_adam(1e-4f);  // the others' gradients are not clipped with it
  members[2].schedule.base = 0.02;
  StackedTraining t(ctx(), members, training, &validation, {.batch = 4});
  t.run();
  const Result first = result_of(t, 0);
  EXPECT_TRUE(first == result_of(t, 3)) << "equal members are equal";
  EXPECT_FALSE(first == result_of(t, 1));
  EXPECT_FALSE(first == result_of(t, 2));
}

TEST_P(StackedTrainingTest, AMemberIsWhatATrainerMakesOfItOnOneThread) {
  for (const bool bag : {false, true}) {
    TrainerOptions o;
    o.network = "small";
    o.batch = 4;
    o.epochs = 3;
    o.seed = 11;
    o.bag = bag;
    o.optimizer = decaying_sgd(0.01f);
    o.schedule = {.kind = Schedule::Kind::cosine, .base = 0.02, .epochs = 3, .warmup_epochs = 1};
    o.evaluation.metrics = mean_error();
    auto own = member(shared(small_network()), o.seed);
    own.optimizer = o.optimizer;
    own.schedule = o.schedule;
    own.epochs = o.epochs;
    own.bag = bag;
    StackedTraining t(ctx(), {member(own.graph, 1), own}, training, &validation, {.batch = o.batch, .seed = o.seed});
    t.run();

    const auto one = ctx().device().make_instance({.threads = ctx().device().shares_host_memory() ? 1 : 0});
    const InstanceScope scope(*one);
    Parameters parameters(*own.graph, ctx(), o.seed);
    Trainer trainer(*own.graph, parameters, training, &validation, nullptr, o);
    Recorder recorder;
    const RunState want = trainer.run({&recorder}).state;
    EXPECT_EQ(everything(t.parameters(1)), everything(parameters));
    const RunState& got = t.record(1).state;
    EXPECT_EQ(got.step, want.step);
    EXPECT_EQ(got.epoch, want.epoch);
    EXPECT_EQ(got.samples, want.samples);
    EXPECT_EQ(t.record(1).train_loss, recorder.train_losses.back());
    EXPECT_EQ(got.metric, want.metric);
    EXPECT_EQ(got.validation_loss, want.validation_loss);
    EXPECT_EQ(got.best_metric, want.best_metric);
    EXPECT_EQ(got.best_epoch, want.best_epoch);
    EXPECT_EQ(got.topology, want.topology);
    EXPECT_EQ(got.optimizer, want.optimizer);
  }
}

TEST_P(StackedTrainingTest, ATrainerGoesOnWithAMember) {
  TrainerOptions o;
  o.network = "small";
  o.batch = 4;
  o.epochs = 3;
  o.seed = 11;
  o.optimizer = decaying_sgd(0);
  o.schedule.base = 0.01;
  auto own = member(shared(small_network()), o.seed);
  own.optimizer = o.optimizer;
  StackedTraining t(ctx(), {own}, training, nullptr, {.batch = o.batch, .seed = o.seed});
  t.run();
  const Folder folder;
  write_checkpoint(folder / "member.h5", copy_run(t.record(0).state, t.parameters(0), o.moments()));
  const auto one = ctx().device().make_instance({.threads = ctx().device().shares_host_memory() ? 1 : 0});
  const InstanceScope scope(*one);
  Parameters parameters(*own.graph, ctx(), 0);
  Trainer trainer(*own.graph, parameters, training, nullptr, nullptr, o);
  trainer.resume(folder / "member.h5");
  trainer.run({});

  own.epochs = 3;
  StackedTraining longer(ctx(), {own}, training, nullptr, {.batch = o.batch, .seed = o.seed});
  longer.run();
  EXPECT_EQ(everything(longer.parameters(0)), everything(parameters));
}

TEST_P(StackedTrainingTest, RecurrentMembersAreWhatTheyAreAlone) {
  Graph g;
  const Var x = g.input("x", {5}, DType::s32), y = g.input("y", {5}, DType::s32);
  const Var h = lstm(embedding(x, {12, 4}, "embedding"), {.hidden = 6, .layers = 1}, "lstm");
  loss(dense(h, 12, "output"), y, {.kind = ops::LossKind::cross_entropy, .sum_rows = true});
  const auto graph = shared(std::move(g));
  const TokenDataset tokens(19);
  const auto train = [&](std::vector<StackedMember> members) {
    for (auto& m : members) m.metrics = {std::make_shared<Perplexity>()};
    auto t = std::make_unique<StackedTraining>(ctx(), std::move(members), tokens, &tokens, StackedOptions{.batch = 4});
    t->run();
    return t;
  };
  const auto both = train({member(graph, 1), member(graph, 2)});
  for (std::size_t m = 0; m < 2; ++m)
    EXPECT_TRUE(result_of(*both, m) == result_of(*train({member(graph, m + 1)}), 0)) << "member " << m;
}

TEST_P(StackedTrainingTest, AMemberThatDivergesEndsAloneAndSaysWhere) {
  const auto graph = shared(small_network());
  std::vector<StackedMember> members{member(graph, 1), member(graph, 2, 1e30), member(graph, 3)};
  StackedTraining t(ctx(), members, training, &validation, {.batch = 4, .workers = 1});
  t.run();
  const StackedRecord& r = t.record(1);
  EXPECT_TRUE(r.done);
  EXPECT_NE(r.failure.find("in step 2; the first value that is not finite is in "), std::string::npos) << r.failure;
  EXPECT_EQ(r.state.step, 1);
  for (const std::size_t m : {0u, 2u}) {
    EXPECT_EQ(t.record(m).failure, "");
    EXPECT_EQ(t.record(m).state.epoch, 2);
    EXPECT_TRUE(result_of(t, m) == alone(members[m], {.batch = 4}));
  }
}

TEST_P(StackedTrainingTest, MembersEndByPatienceOrWhenTheyAreStopped) {
  const auto graph = shared(small_network(0));
  std::vector<StackedMember> members;
  for (int i = 0; i < 4; ++i) members.push_back(member(graph, 1));
  for (auto& m : members) m.epochs = 6;
  members[3].epochs = 0;
  members[0].schedule.base = 0;  // never better
  members[0].patience = 2;
  StackedTraining t(ctx(), members, training, &validation, {.batch = 6});
  EXPECT_TRUE(t.train_epoch());
  t.stop(1);
  t.run();
  EXPECT_EQ(t.record(0).state.epoch, 3) << "the first validation, and two that are not better";
  EXPECT_EQ(t.record(0).state.best_epoch, 1);
  EXPECT_EQ(t.record(1).state.epoch, 1);
  EXPECT_EQ(t.record(2).state.epoch, 6);
  EXPECT_EQ(t.record(3).state.step, 0);
  EXPECT_TRUE(t.record(3).done);
  EXPECT_FALSE(t.train_epoch());
  EXPECT_LT(t.record(2).state.validation_loss, t.record(0).state.validation_loss) << "it learns";
}

TEST_P(StackedTrainingTest, ResumedMembersAreThoseOfOneTraining) {
  const auto graph = shared(dense_network());
  const auto optimizer = clipped_adam(0.5f);
  const auto members = [&](std::int64_t epochs) {
    std::vector<StackedMember> all{member(graph, 1), member(graph, 2), member(graph, 3)};
    for (auto& m : all) m.optimizer = optimizer;
    for (auto& m : all) m.epochs = epochs;
    return all;
  };
  StackedOptions o{.batch = 4, .seed = 3};
  StackedTraining whole(ctx(), members(4), training, &validation, o);
  whole.run();
  StackedTraining begun(ctx(), members(2), training, &validation, o);
  const Folder folder;
  // Member 2 was not written after its second epoch, and member 1 not at all.
  const auto keep = [&](std::size_t m) {
    write_checkpoint(folder / fmt::format("{}.h5", m),
                     copy_run(begun.record(m).state, begun.parameters(m), moment_names(*optimizer)));
  };
  begun.train_epoch();
  keep(2);
  begun.train_epoch();
  keep(0);
  StackedTraining rest(ctx(), members(4), training, &validation, o);
  for (const std::size_t m : {0u, 2u})
    rest.resume(m, load_checkpoint(folder / fmt::format("{}.h5", m), "small", rest.parameters(m),
                                   moment_names(*optimizer), nullptr));
  rest.run();
  for (std::size_t m = 0; m < 3; ++m) EXPECT_TRUE(result_of(rest, m) == result_of(whole, m)) << "member " << m;

  RunState state = whole.record(0).state;
  state.step_in_epoch = 1;
  EXPECT_THROW(rest.resume(0, state), InputError);
  state = whole.record(0).state;
  state.global_batch = 6;
  EXPECT_THROW(rest.resume(0, state), InputError);
}

TEST_P(StackedTrainingTest, ATrainingThatIsCutKeepsTheRecordsOfWholeEpochs) {
  const auto graph = shared(small_network());
  for (const bool validating : {false, true}) {
    std::int64_t calls = 0;
    StackedOptions o{.batch = 4};
    o.go_on = [&](const StackedProgress& p) {
      ++calls;
      EXPECT_EQ(p.steps, p.validates ? 2 : 5);
      EXPECT_LT(p.step, p.steps);
      return p.epoch < 1 || p.validates != validating || p.step < 1;
    };
    StackedTraining t(ctx(), {member(graph, 1), member(graph, 2)}, training, &validation, o);
    EXPECT_TRUE(t.train_epoch());
    EXPECT_FALSE(t.was_cut());
    EXPECT_EQ(calls, 7);
    const double loss = t.record(0).state.validation_loss;
    EXPECT_FALSE(t.train_epoch());
    EXPECT_TRUE(t.was_cut());
    EXPECT_EQ(t.record(0).state.epoch, 1);
    EXPECT_EQ(t.record(0).state.step, 5);
    EXPECT_EQ(t.record(0).state.validation_loss, loss);
    EXPECT_FALSE(t.train_epoch()) << "it does not go on";
  }
}

/// Cannot read one of its samples.
class TornDataset final : public Dataset {
 public:
  std::int64_t size() const override { return whole_.size(); }
  const std::vector<Field>& fields() const override { return whole_.fields(); }
  std::string describe() const override { return "torn cubes"; }
  void read(std::int64_t index, void* const* dst) const override {
    if (index == 9) refuse("sample 9 cannot be read");
    whole_.read(index, dst);
  }

 private:
  CubeDataset whole_{18};
};

TEST_P(StackedTrainingTest, RefusesWhatCannotBeTrained) {
  const auto graph = shared(small_network());
  const auto why = [&](std::vector<StackedMember> members, const Dataset& data, StackedOptions o) -> std::string {
    try {
      StackedTraining(ctx(), std::move(members), data, nullptr, std::move(o)).run();
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(why({}, training, {}).find("no members"), std::string::npos);
  EXPECT_NE(why({StackedMember()}, training, {}).find("member 0"), std::string::npos);
  EXPECT_NE(why({member(graph, 1)}, training, {.batch = 19}), "");
  EXPECT_NE(why({member(graph, 1)}, TokenDataset(9), {.batch = 2}), "") << "other fields than the network's";
  EXPECT_NE(why({member(graph, 1)}, TornDataset(), {.batch = 2}).find("sample 9 cannot be read"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Contexts, StackedTrainingTest, ::testing::ValuesIn(network_contexts()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace keelson::testing
