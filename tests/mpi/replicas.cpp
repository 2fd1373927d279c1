#include <gtest/gtest.h>

#include "engine/execute/executor.hpp"
#include "engine/optim/adam.hpp"
#include "engine/optim/lamb.hpp"
#include "engine/optim/lars.hpp"
#include "engine/optim/muon.hpp"
#include "nets/lstm_lm/lstm_lm.hpp"
#include "tests/mpi/trained.hpp"
#include "tests/mpi/world.hpp"

/// Replicas of several ranks, along the axis space: they take the same samples, which count once.
namespace keelson::testing {
namespace {

using Axis = ProcessGrid::Axis;

class ReplicasTest : public MpiTest {
 protected:
  /// As many ranks as there are replicas, this one among them, numbered by their replicas.
  std::unique_ptr<Communicator> rank_of_each(int space) const { return world().split(rank() % space, rank()); }
};

/// Without spatial dimensions: all ranks of a replica compute the same.
Graph dense_network() {
  Graph g;
  Var h = leaky_relu(dense(flatten(g.input("x", {2, 6, 6, 6})), 12, "dense1"), 0.1f);
  h = dense(dropout(h, 0.25f, "drop"), 2, "dense2");
  g.set_output("prediction", h);
  mse(h, g.input("y", {2}));
  return g;
}

TEST_F(ReplicasTest, HaveTheBitsOfReplicasOfOneRank) {
  KEELSON_NEED_RANKS(2);
  auto lars = std::make_shared<Lars>();
  lars->eta = 0.1f;
  lars->clip_norm = 0.5f;
  const std::shared_ptr<const Optimizer> optimizers[] = {make_sgd(0.9f), std::make_shared<Adam>(), lars,
                                                         std::make_shared<Lamb>(), std::make_shared<Muon>()};
  for (const int space : spaces()) {
    const auto others = rank_of_each(space);
    for (const auto& optimizer : optimizers) {
      auto o = small_options();
      o.optimizer = optimizer;
      o.schedule.base = 1e-2;
      o.epochs = 3;
      o.exchange.bucket_bytes = 1000;  // several
      const auto run = [&](Communicator* c, int ranks_of_replica) {
        o.replica.space = ranks_of_replica;
        const auto predictions = std::make_shared<Predictions>();
        o.evaluation.metrics.resize(1);
        o.evaluation.metrics.push_back(predictions);
        const auto trained = train_cubes(dense_network(), c, 4, o);
        return std::pair(trained, rank() == 0 ? predictions->predicted() : std::vector<float>());
      };
      const auto got = run(&world(), space), want = run(others.get(), 1);
      EXPECT_EQ(got, want) << optimizer->to_string() << ", replicas of " << space;
      if (rank() == 0) {
        EXPECT_EQ(got.second.size(), 14U) << "each of 7 samples once, 2 targets";
      }
    }
  }
}

/// Embeddings with gradients by rows, recurrent states, and checkpoints within an epoch, for either grid.
TEST_F(ReplicasTest, CarryStatesAndContinueOnAnyGrid) {
  KEELSON_NEED_RANKS(2);
  const Graph graph = nets::lstm_lm({.vocabulary = 2000, .hidden = 8, .layers = 2, .unroll = 5, .dropout = 0.25f});
  std::optional<Folder> folder;
  std::string name;
  if (rank() == 0) name = folder.emplace().path().string();
  const auto shared = world().allgather(name)[0];
  for (const int space : spaces()) {
    const auto others = rank_of_each(space);
    const auto run = [&](Communicator* c, int ranks_of_replica, std::int64_t steps, const std::string& into,
                         const std::filesystem::path& resume) {
      auto o = small_options();
      o.replica.space = ranks_of_replica;
      o.optimizer = make_sgd(0);
      o.schedule.base = 0.5;
      return train_text(graph, c, o, steps, into, resume);
    };
    const auto whole = run(others.get(), 1, -1, "", {});
    EXPECT_EQ(run(&world(), space, -1, "", {}), whole);
    const std::string into = shared + "/" + std::to_string(space);
    run(&world(), space, 4, into, {});
    world().barrier();
    const auto checkpoint = find_checkpoint(into, false);
    EXPECT_EQ(read_run_state(checkpoint).step_in_epoch, 1) << "with recurrent states";
    EXPECT_EQ(run(&world(), space, -1, "", checkpoint).parameters, whole.parameters);
    EXPECT_EQ(run(others.get(), 1, -1, "", checkpoint).parameters, whole.parameters);
    world().barrier();
  }
}

/// All ranks draw the same classes, so that ranks compute what one rank computes, up to rounding.
TEST_F(ReplicasTest, DrawTheSameClassesForASampledSoftmax) {
  KEELSON_NEED_RANKS(2);
  for (const bool tied : {false, true}) {
    const Graph graph =
        nets::lstm_lm({.vocabulary = 500, .hidden = 8, .layers = 1, .unroll = 5, .tied = tied, .sampled_softmax = 40});
    const auto run = [&](Communicator* c) {
      auto o = small_options();
      o.optimizer = make_sgd(0);
      o.schedule.base = 0.5;
      return train_text(graph, c, o, -1, "", {});
    };
    const auto alone = world().split(rank(), 0);
    const Trained got = run(&world()), want = run(alone.get());
    ASSERT_EQ(got.losses.size(), want.losses.size());
    for (std::size_t i = 0; i < want.losses.size(); ++i) EXPECT_NEAR(got.losses[i], want.losses[i], 1e-4) << i;
    ASSERT_EQ(got.parameters.size(), want.parameters.size());
    for (std::size_t i = 0; i < want.parameters.size(); ++i)
      ASSERT_NEAR(got.parameters[i], want.parameters[i], 1e-4) << i;
  }
}

/// The same with parts of layers, up to rounding. A checkpoint has whole parameters.
TEST_F(ReplicasTest, WithPartsOfChannelsCarryStatesAndContinueOnAnyGrid) {
  KEELSON_NEED_RANKS(2);
  const Graph graph = nets::lstm_lm({.vocabulary = 50, .hidden = 8, .layers = 2, .unroll = 5, .dropout = 0.25f});
  std::optional<Folder> folder;
  std::string name;
  if (rank() == 0) name = folder.emplace().path().string();
  const auto shared = world().allgather(name)[0];
  for (const int channel : spaces()) {
    const auto others = rank_of_each(channel);
    const auto run = [&](Communicator* c, int ranks_of_replica, std::int64_t steps, const std::string& into,
                         const std::filesystem::path& resume) {
      auto o = small_options();
      o.replica.channel = ranks_of_replica;
      o.optimizer = make_sgd(0.5f);
      o.schedule.base = 0.1;
      return train_text(graph, c, o, steps, into, resume);
    };
    /// A run that continues has the last values of a whole run.
    const auto expect_last = [](const std::vector<double>& got, const std::vector<double>& whole, double tolerance) {
      ASSERT_FALSE(got.empty());
      ASSERT_LE(got.size(), whole.size());
      for (std::size_t i = 1; i <= got.size(); ++i)
        EXPECT_NEAR(got[got.size() - i], whole[whole.size() - i], tolerance) << i;
    };
    const auto expect_like = [&](const Trained& got, const Trained& want) {
      expect_last(got.losses, want.losses, 1e-5);
      expect_last(got.metrics, want.metrics, 1e-3);
    };
    const auto whole = run(others.get(), 1, -1, "", {});
    const auto parts = run(&world(), channel, -1, "", {});
    EXPECT_EQ(parts.losses.size(), whole.losses.size());
    expect_like(parts, whole);
    const std::string into = fmt::format("{}/{}", shared, channel);
    run(&world(), channel, 4, into, {});
    world().barrier();
    const auto checkpoint = find_checkpoint(into, false);
    const auto rest = run(others.get(), 1, -1, "", checkpoint);
    EXPECT_LT(rest.losses.size(), whole.losses.size());
    expect_like(rest, whole);
    expect_like(run(&world(), channel, -1, "", checkpoint), whole);
    world().barrier();
  }
}

/// Kernels of another processor may round otherwise: here the other ranks of a replica even have other inputs.
TEST_F(ReplicasTest, SumsTakeTheTermsOfTheFirstRankAlone) {
  KEELSON_NEED_RANKS(2);
  Graph g;
  const Var h =
      batch_norm(dense(embedding(g.input("t", {1}, DType::s32), {500, 6}, "embedding"), 5, "dense1"), {}, "bn");
  g.set_output("prediction", h);
  mse(dense(reshape(h, {5}), 2, "dense2"), g.input("y", {2}));
  const auto step = [&](Communicator& ranks, int space) {
    const ProcessGrid grid(ranks, {.space = space});
    const int replica = grid.coordinate(Axis::data), other = grid.coordinate(Axis::space);
    Parameters parameters(g, context(network_contexts().back()), 1);
    const Sgd sgd;
    Executor executor(g, parameters, {.batch = 4, .optimizer = &sgd, .grid = &grid});
    std::vector<std::int32_t> tokens;
    std::vector<float> targets;
    for (int i = 0; i < 4; ++i) tokens.push_back(7 * replica + 3 * i + 11 * other);
    for (int i = 0; i < 8; ++i) targets.push_back(0.1f * static_cast<float>(i + replica) + static_cast<float>(other));
    Device& device = parameters.context().device();
    device.copy_from_host(executor.input("t").raw(), tokens.data(), tokens.size() * sizeof(std::int32_t));
    parameters.context().write_plain(executor.input("y"), targets.data());
    executor.forward(
        {.inverse_samples = 1.0f / static_cast<float>(4 * grid.extent(Axis::data)), .learning_rate = 0.1f});
    executor.backward();
    std::vector<float> all{static_cast<float>(executor.loss())};
    for (const char* name : {"embedding/weights", "dense1/weights", "bn/scale", "bn/shift", "dense2/bias"}) {
      const auto gradient = executor.gradient(name);
      all.insert(all.end(), gradient.begin(), gradient.end());
    }
    executor.update();
    const auto updated = everything(parameters);
    all.insert(all.end(), updated.begin(), updated.end());
    return all;
  };
  for (const int space : spaces()) {
    const auto others = rank_of_each(space);
    auto want = step(*others, 1);
    world().broadcast(want.data(), want.size() * sizeof(float), 0);
    EXPECT_EQ(step(world(), space), want) << "replicas of " << space;
  }
}

TEST_F(ReplicasTest, RefusesWhatOnlyReplicasOfOneRankCanDo) {
  const auto refusal = [&](int space, auto change) {
    auto o = small_options();
    o.replica.space = space;
    change(o);
    return message_of<InputError>([&] { train_cubes(&world(), 4 * size(), o); });
  };
  const auto nothing = [](TrainerOptions&) {};
  const std::string ranks = size() == 1 ? "1 rank" : std::to_string(size()) + " ranks";
  const auto text = refusal(3, nothing);
  EXPECT_NE(text.find(ranks + ", but a replica has 3 (--spatial 3)"), std::string::npos) << text;
  const auto other = refusal(1, [&](TrainerOptions& o) { o.replica.ensemble = 2; });
  EXPECT_NE(other.find("a grid with 2 ranks along ensemble"), std::string::npos) << other;
  if (size() == 1) return;
  const auto relaxed = refusal(2, [](TrainerOptions& o) { o.sync = SyncMode::parse("local:2"); });
  EXPECT_NE(relaxed.find("replicas of 2 ranks (--spatial 2) with synchronization"), std::string::npos) << relaxed;
  const auto tree = refusal(2, [](TrainerOptions& o) { o.exchange.reproducible = true; });
  EXPECT_NE(tree.find("reproducible sums (--reproducible) on 2 ranks to a replica"), std::string::npos) << tree;
  const auto differs = refusal(2, [&](TrainerOptions& o) { o.replica.space = rank() == 0 ? 1 : 2; });
  EXPECT_NE(differs.find("replica is "), std::string::npos) << differs;
}

}  // namespace
}  // namespace keelson::testing
