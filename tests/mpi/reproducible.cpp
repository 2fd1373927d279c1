#include <gtest/gtest.h>

#include "engine/optim/adam.hpp"
#include "engine/optim/lamb.hpp"
#include "engine/optim/lars.hpp"
#include "engine/optim/muon.hpp"
#include "nets/lstm_lm/lstm_lm.hpp"
#include "tests/mpi/trained.hpp"
#include "tests/mpi/world.hpp"

/// ExchangeOptions::reproducible: the same bits, whatever the number of ranks.
namespace keelson::testing {
namespace {

class ReproducibleTest : public MpiTest {
 protected:
  /// This rank alone, and all ranks.
  static inline Communicator* const alone = nullptr;
  Communicator* const all = &world();
};

TrainerOptions reproducible(TrainerOptions o) {
  o.exchange.reproducible = true;
  o.exchange.bucket_bytes = 1000;  // several
  o.epochs = 3;
  return o;
}

TEST_F(ReproducibleTest, AnyNumberOfRanksHasTheBitsOfOne) {
  auto clipped = std::make_shared<Sgd>();
  clipped->momentum = 0.9f;
  clipped->clip_norm = 0.5f;
  auto lars = std::make_shared<Lars>();
  lars->eta = 0.1f;
  const std::shared_ptr<const Optimizer> optimizers[] = {clipped, std::make_shared<Adam>(), lars,
                                                         std::make_shared<Lamb>(), std::make_shared<Muon>()};
  for (const auto& optimizer : optimizers)
    for (const std::int64_t global_batch : {4, 8}) {
      auto o = reproducible(small_options());
      o.optimizer = optimizer;
      o.schedule.base = 1e-2;
      EXPECT_EQ(train_cubes(all, global_batch, o), train_cubes(alone, global_batch, o)) << optimizer->to_string();
    }
}

TEST_F(ReproducibleTest, WithoutItBitsDiffer) {
  KEELSON_NEED_RANKS(2);
  auto o = reproducible(small_options());
  o.exchange.reproducible = false;
  EXPECT_NE(train_cubes(all, 8, o).parameters, train_cubes(alone, 8, o).parameters);
}

TEST_F(ReproducibleTest, GivesTheMeanGradientOfTheBatch) {
  const auto o = reproducible(small_options());
  auto plain = o;
  plain.exchange.reproducible = false;
  const auto got = train_cubes(all, 8, o), want = train_cubes(alone, 8, plain);
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (std::size_t i = 0; i < want.losses.size(); ++i) EXPECT_NEAR(got.losses[i], want.losses[i], 1e-5);
  for (std::size_t i = 0; i < want.parameters.size(); ++i)
    EXPECT_NEAR(got.parameters[i], want.parameters[i], 1e-4) << i;
}

TEST_F(ReproducibleTest, ContinuesBitForBitWithAnotherNumberOfRanks) {
  std::optional<Folder> folder;
  std::string name;
  if (rank() == 0) name = folder.emplace().path().string();
  const std::filesystem::path path = world().allgather(name)[0];
  const auto whole = train_cubes(alone, 4, reproducible(small_options()));
  auto o = reproducible(small_options());
  o.checkpoints.folder = path;
  o.max_steps = 7;  // in the second epoch
  train_cubes(all, 4, o);
  world().barrier();
  for (Communicator* c : {all, alone})
    EXPECT_EQ(train_cubes(c, 4, reproducible(small_options()), find_checkpoint(path, false)).parameters,
              whole.parameters);
  world().barrier();
}

/// A recurrent state for each place of the batch, gradients of an embedding, and steps that end within an epoch.
TEST_F(ReproducibleTest, LanguageModels) {
  const Graph graph = nets::lstm_lm({.vocabulary = 12, .hidden = 8, .layers = 2, .unroll = 5, .dropout = 0.25f});
  std::optional<Folder> folder;
  std::string name;
  if (rank() == 0) name = folder.emplace().path().string();
  const auto run = [&](Communicator* c, std::int64_t steps, const std::filesystem::path& resume) {
    auto o = reproducible(small_options());
    o.shuffle = false;
    o.max_steps = steps;
    o.unit = {"word", 5};
    o.evaluation.metrics = {std::make_shared<Perplexity>()};
    auto sgd = std::make_shared<Sgd>();
    sgd->clip_norm = 1;
    o.optimizer = sgd;
    o.schedule.base = 0.5;
    if (steps > 0) o.checkpoints.folder = world().allgather(name)[0];
    return train_network(graph, TokenDataset(24), TokenDataset(16), c, 8, o, resume);
  };
  const auto whole = run(alone, -1, {});
  EXPECT_EQ(whole.losses.size(), 9U);
  EXPECT_EQ(run(all, -1, {}), whole);
  run(all, 4, {});
  const auto path = find_checkpoint(world().allgather(name)[0], false);
  world().barrier();
  for (Communicator* c : {all, alone}) EXPECT_EQ(run(c, -1, path).parameters, whole.parameters);
  world().barrier();
}

/// Ranks send each other the samples that they keep.
TEST_F(ReproducibleTest, CachesChangeNoBits) {
  const auto whole = train_cubes(alone, 8, reproducible(small_options()));
  const auto bytes = static_cast<std::int64_t>(CubeDataset(1).stored_bytes()) + 1;
  for (const std::int64_t kept : {100, 2}) {
    auto o = reproducible(small_options());
    o.cache.memory = kept * bytes;
    EXPECT_EQ(train_cubes(all, 8, o), whole);
    o.exchange.reproducible = false;  // the ranks compute what they keep
    o.epochs = 1;
    auto plain = o;
    plain.cache = {};
    const auto got = train_cubes(small_network(0), all, 8, o), want = train_cubes(small_network(0), all, 8, plain);
    ASSERT_EQ(got.losses.size(), want.losses.size());
    for (std::size_t i = 0; i < want.losses.size(); ++i) EXPECT_NEAR(got.losses[i], want.losses[i], 1e-5);
  }
}

TEST_F(ReproducibleTest, AnySampleIsNamedThatIsNotFinite) {
  for (const std::int64_t place : {0, 1, 3}) {
    CubeDataset training(16);
    training.poisoned = 4 + place;  // of the second batch
    const auto graph = small_network(0);
    auto o = reproducible(small_options());
    o.shuffle = false;
    o.batch = 4 / size();
    Parameters parameters(graph, context(network_contexts().back()), o.seed);
    Trainer trainer(graph, parameters, training, nullptr, &world(), o);
    const auto text = message_of<Error>([&] { trainer.run(); });
    EXPECT_NE(text.find("in step 2 (epoch 1)"), std::string::npos) << text;
    EXPECT_NE(text.find("the cause is in input x: sample "), std::string::npos) << text;
    EXPECT_NE(text.find(fmt::format(" has an infinite value on rank {}", place / o.batch)), std::string::npos) << text;
  }
}

TEST_F(ReproducibleTest, RefusesWhatItCannotDo) {
  const CubeDataset data(24);
  const auto refusal = [&](const Graph& graph, std::int64_t batch, const ExchangeOptions& exchange) {
    auto o = small_options();
    o.batch = batch;
    o.exchange = exchange;
    Parameters parameters(graph, context(network_contexts().back()), o.seed);
    return message_of<InputError>([&] { Trainer(graph, parameters, data, nullptr, &world(), o); });
  };
  Graph normalised;
  const Var x = normalised.input("x", {2, 6, 6, 6}), y = normalised.input("y", {2});
  const Var h = batch_norm(conv(x, {.filters = 4}, "conv1"), {}, "norm");
  mse(dense(flatten(h), 2, "dense"), y);
  auto text = refusal(normalised, 2, {.reproducible = true});
  EXPECT_NE(text.find("the layer norm (batch_norm) computes with all samples"), std::string::npos) << text;
  text = refusal(small_network(), 3, {.reproducible = true});
  EXPECT_NE(text.find("found a batch of 3 on each of"), std::string::npos) << text;
  text = refusal(small_network(), 2, {.wire = Wire::bf16, .reproducible = true});
  EXPECT_NE(text.find("exchanged in fp32"), std::string::npos) << text;
}

}  // namespace
}  // namespace keelson::testing
