#include <gtest/gtest.h>

#include "engine/optim/adam.hpp"
#include "engine/optim/lamb.hpp"
#include "engine/optim/lars.hpp"
#include "engine/optim/muon.hpp"
#include "nets/lstm_lm/lstm_lm.hpp"
#include "tests/mpi/trained.hpp"
#include "tests/mpi/world.hpp"

/// Groups of layers on the ranks along the axis stage: they compute what one rank does with all layers and as many
/// micro-batches.
namespace keelson::testing {
namespace {

class StagesTest : public MpiTest {
 protected:
  /// Numbers of stages on these ranks.
  std::vector<int> stage_counts() const { return size() == 4 ? std::vector<int>{2, 4} : std::vector<int>{size()}; }
  /// The ranks of one stage, numbered by their replicas.
  std::unique_ptr<Communicator> ranks_of_stage(int stages) const {
    return world().split(rank() / (size() / stages), rank());
  }
};

Var stage_block(Var x, std::int64_t filters, const std::string& name) {
  return max_pool(leaky_relu(conv(x, {.filters = filters}, name), 0.1f), 2);
}

/// Values that later stages read go through the stages between; the first one has no parameters.
Graph network_with_long_connections() {
  Graph g;
  const Var x = g.input("x", {2, 6, 6, 6});
  const Var a = relu(conv(x, {.filters = 6}, "conv1"));
  const Var b = dropout(relu(conv(a, {.filters = 6}, "conv2")), 0.25f, "drop1");
  const Var c = concat({add({a, b}), x});
  const Var d = stage_block(c, 5, "conv3");
  Var h = leaky_relu(dense(flatten(d), 12, "dense1"), 0.1f);
  h = dense(dropout(concat({h, flatten(global_average_pool(a))}), 0.25f, "drop2"), 2, "dense2");
  g.set_output("prediction", h);
  mse(h, g.input("y", {2}));
  return g;
}

void expect_equal(const Trained& got, const Trained& want) {
  EXPECT_EQ(got.losses, want.losses);
  EXPECT_EQ(got.train_losses, want.train_losses);
  EXPECT_EQ(got.metrics, want.metrics);
  EXPECT_EQ(got.validation_losses, want.validation_losses);
  EXPECT_EQ(got.parameters, want.parameters);
}

void expect_close(const Trained& got, const Trained& want) {
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (std::size_t i = 0; i < got.losses.size(); ++i) EXPECT_NEAR(got.losses[i], want.losses[i], 1e-5) << i;
  ASSERT_EQ(got.parameters.size(), want.parameters.size());
  for (std::size_t i = 0; i < got.parameters.size(); ++i) EXPECT_NEAR(got.parameters[i], want.parameters[i], 1e-5) << i;
}

/// Bit for bit, but where norms are summed over stages, and where the gradients of several readers of a value are.
TEST_F(StagesTest, ComputeWhatMicroBatchesDo) {
  KEELSON_NEED_RANKS(2);
  auto clipped = std::make_shared<Adam>();
  clipped->clip_norm = 0.5f;
  auto lars = std::make_shared<Lars>();
  lars->eta = 0.1f;
  struct Case {
    std::shared_ptr<const Optimizer> optimizer;
    std::int64_t batch, micro_batches;
    bool with_norms;
  };
  const Case cases[] = {{make_sgd(0.9f), 4, 4, false},
                        {std::make_shared<Adam>(), 4, 2, false},
                        {make_sgd(0.9f), 4, 1, false},
                        {make_sgd(0.0f), 3, 3, false},
                        {clipped, 4, 4, true},
                        {lars, 4, 2, true},
                        {std::make_shared<Lamb>(), 4, 4, true},
                        {std::make_shared<Muon>(), 4, 2, false}};
  for (const int stages : stage_counts()) {
    const auto others = ranks_of_stage(stages);
    for (const Case& c : cases) {
      auto o = small_options();
      o.optimizer = c.optimizer;
      o.schedule.base = 1e-2;
      o.epochs = 2;
      o.micro_batches = c.micro_batches;
      o.exchange.bucket_bytes = 1000;
      const auto run = [&](const Graph& g, Communicator* ranks, int of_replica) {
        o.replica.stage = of_replica;
        const auto predictions = std::make_shared<Predictions>();
        o.evaluation.metrics.resize(1);
        o.evaluation.metrics.push_back(predictions);
        auto trained = train_cubes(g, ranks, c.batch * (size() / stages), o);
        trained.parameters = rank() == 0 ? predictions->predicted() : std::vector<float>();
        return trained;
      };
      SCOPED_TRACE(fmt::format("{}, {} stages, {} micro-batches of {}", c.optimizer->to_string(), stages,
                               c.micro_batches, c.batch));
      const Graph chain = small_network(0.25f);
      const auto got = run(chain, &world(), stages), want = run(chain, others.get(), 1);
      c.with_norms ? expect_close(got, want) : expect_equal(got, want);
      const Graph connected = network_with_long_connections();
      expect_close(run(connected, &world(), stages), run(connected, others.get(), 1));
    }
  }
}

/// Recurrent states live on their stage, and checkpoints have all of them.
TEST_F(StagesTest, CarryStatesAndContinueOnAnyGrid) {
  KEELSON_NEED_RANKS(2);
  const Graph graph = nets::lstm_lm({.vocabulary = 50, .hidden = 8, .layers = 2, .unroll = 5, .dropout = 0.25f});
  std::optional<Folder> folder;
  std::string name;
  if (rank() == 0) name = folder.emplace().path().string();
  const auto shared = world().allgather(name)[0];
  for (const int stages : stage_counts()) {
    const auto others = ranks_of_stage(stages);
    const auto run = [&](Communicator* c, int of_replica, std::int64_t steps, const std::string& into,
                         const std::filesystem::path& resume) {
      auto o = small_options();
      o.micro_batches = 2;
      o.replica.stage = of_replica;
      o.optimizer = make_sgd(0.5f);
      o.schedule.base = 0.1;
      auto trained = train_text(graph, c, o, steps, into, resume);
      trained.parameters.clear();
      return trained;
    };
    const auto whole = run(others.get(), 1, -1, "", {});
    expect_close(run(&world(), stages, -1, "", {}), whole);
    const std::string into = fmt::format("{}/{}", shared, stages);
    run(&world(), stages, 4, into, {});
    world().barrier();
    const auto checkpoint = find_checkpoint(into, false);
    EXPECT_EQ(read_run_state(checkpoint).step_in_epoch, 1) << "with recurrent states";
    const auto rest = run(others.get(), 1, -1, "", checkpoint);
    EXPECT_LT(rest.losses.size(), whole.losses.size());
    for (std::size_t i = 1; i <= rest.losses.size(); ++i)
      EXPECT_NEAR(rest.losses[rest.losses.size() - i], whole.losses[whole.losses.size() - i], 1e-5) << i;
    expect_close(run(&world(), stages, -1, "", checkpoint), rest);
    world().barrier();
  }
}

TEST_F(StagesTest, RefuseWhatTheyCannotDo) {
  KEELSON_NEED_RANKS(2);
  const auto refusal = [&](const Graph& g, auto change) {
    auto o = small_options();
    o.replica.stage = size();
    change(o);
    return message_of<InputError>([&] { train_cubes(g, &world(), 4, o); });
  };
  const auto nothing = [](TrainerOptions&) {};
  const auto expect = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  Graph tiny;
  mse(dense(flatten(tiny.input("x", {2, 6, 6, 6})), 2, "dense"), tiny.input("y", {2}));
  if (size() > 3)
    expect(refusal(tiny, nothing), fmt::format("{} stages (--stages), but the network has 3 layers", size()));
  Graph mixes;
  Var h = batch_norm(dense(flatten(mixes.input("x", {2, 6, 6, 6})), 6, "dense1"), {}, "bn");
  mse(dense(relu(h), 2, "dense2"), mixes.input("y", {2}));
  expect(refusal(mixes, nothing), "the layer bn (batch_norm) computes with all samples of a batch together");
  const Graph g = network_with_long_connections();
  expect(refusal(g, [](TrainerOptions& o) { o.exchange.reproducible = true; }), "--reproducible");
  expect(refusal(g, [](TrainerOptions& o) { o.exchange.shards = OptimizerShards::moments; }), "--shard-optimizer");
  expect(refusal(g, [](TrainerOptions& o) { o.sync = SyncMode::parse("lag"); }), "only synchronous training");
  expect(refusal(g,
                 [](TrainerOptions& o) {
                   o.change_network = [](const RunState&, const Parameters&) { return std::optional<NetworkChange>(); };
                 }),
         "change_network");
}

}  // namespace
}  // namespace keelson::testing
