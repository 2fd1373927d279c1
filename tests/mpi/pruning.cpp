#include <gtest/gtest.h>

#include "tests/mpi/trained.hpp"
#include "tests/mpi/world.hpp"

/// Samples that are left out (TrainerOptions::prune) on several ranks.
namespace keelson::testing {
namespace {

using PruningTest = MpiTest;

struct PrunedOnRanks {
  Trained trained;
  std::map<std::string, std::vector<float>> samples;  ///< SamplePruning::state
  bool operator==(const PrunedOnRanks&) const = default;
};

PrunedOnRanks train_pruned(Communicator* c, TrainerOptions o, const std::filesystem::path& resume = {},
                           const Graph& graph = small_network(0.25f)) {
  const CubeDataset training(37), validation(7, 6, 99);
  Parameters parameters(graph, context(network_contexts().back()), o.seed);
  o.batch = 8 * ranks_of(o.replica) / (c ? c->size() : 1);
  Trainer trainer(graph, parameters, training, &validation, c, o);
  if (!resume.empty()) trainer.resume(resume);
  Recorder recorder;
  trainer.run({&recorder});
  Trained trained{recorder.losses, recorder.train_losses, recorder.metrics, {}, {}};
  if (!parameters.are_spread()) trained.parameters = everything(parameters);
  return {trained, trainer.pruning().state(false)};
}

TrainerOptions pruned_options(PruneRule rule) {
  auto o = small_options();
  o.epochs = 8;
  o.prune = {rule, 0.5};
  o.exchange.reproducible = true;
  return o;
}

constexpr PruneRule rules[] = {PruneRule::infobatch, PruneRule::random, PruneRule::kakurenbo, PruneRule::forgetting,
                               PruneRule::el2n};

TEST_F(PruningTest, AnyNumberOfRanksKeepsTheSameSamples) {
  for (const PruneRule rule : rules) {
    const auto all = train_pruned(&world(), pruned_options(rule)), one = train_pruned(nullptr, pruned_options(rule));
    EXPECT_EQ(all.samples, one.samples) << to_string(rule);
    EXPECT_EQ(all, one) << to_string(rule);
  }
}

TEST_F(PruningTest, CachesChangeNothing) {
  auto o = pruned_options(PruneRule::infobatch);
  const auto plain = train_pruned(&world(), o);
  o.cache.memory = 4 * (CubeDataset(1).stored_bytes() + 1);
  EXPECT_EQ(train_pruned(&world(), o), plain);
}

TEST_F(PruningTest, ContinuesWithinAnEpochWithAnotherNumberOfRanks) {
  std::optional<Folder> folder;
  std::string name;
  if (rank() == 0) name = folder.emplace().path().string();
  const std::filesystem::path path = world().allgather(name)[0];
  for (const PruneRule rule : rules) {
    const auto whole = train_pruned(nullptr, pruned_options(rule));
    auto o = pruned_options(rule);
    o.checkpoints.folder = path / std::string(to_string(rule));
    o.max_steps = 11;
    train_pruned(&world(), o);
    world().barrier();
    const auto from = find_checkpoint(o.checkpoints.folder, false);
    for (Communicator* c : {&world(), static_cast<Communicator*>(nullptr)}) {
      const auto rest = train_pruned(c, pruned_options(rule), from);
      EXPECT_EQ(rest.samples, whole.samples) << to_string(rule);
      EXPECT_EQ(rest.trained.parameters, whole.trained.parameters) << to_string(rule);
    }
    world().barrier();
  }
}

/// Ranks that compute parts of a sample have terms of its loss.
TEST_F(PruningTest, RanksOfAReplicaAddTheirTermsUp) {
  KEELSON_NEED_RANKS(2);
  auto o = pruned_options(PruneRule::infobatch);
  o.exchange.reproducible = false;
  o.epochs = 1;
  o.schedule.base = 0;
  const Graph graph = small_network(0);
  const auto want = train_pruned(nullptr, o, {}, graph).samples.at("loss");
  o.replica.space = 2;
  const auto got = train_pruned(&world(), o, {}, graph).samples;
  ASSERT_EQ(got.at("loss").size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got.at("loss")[i], want[i], 1e-4 * static_cast<double>(want[i])) << i;
    EXPECT_EQ(got.at("visits")[i], 1) << i;
  }
}

}  // namespace
}  // namespace keelson::testing
