#include <gtest/gtest.h>

#include "comm/on_device.hpp"
#include "engine/optim/adam.hpp"
#include "tests/mpi/world.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/fake_async_context.hpp"
#include "tests/train/support.hpp"

namespace keelson::testing {
namespace {

class SyncTest : public MpiTest {};

struct ModeResult {
  std::vector<double> losses, metrics;
  std::vector<float> parameters;
};

constexpr std::int64_t samples_per_step = 4;

/// In the order of samples of this seed no maximum of a pooling is decided by rounding, which the modes change.
TrainerOptions sync_options() {
  TrainerOptions o = small_options();
  o.seed = 13;
  return o;
}

/// 18 samples: the last step of an epoch has two, so at four ranks two of them have none.
ModeResult train_in_mode(TrainerOptions o, const std::string& mode, const std::filesystem::path& resume = {},
                         Context* where = nullptr, Communicator* ranks = nullptr) {
  const auto graph = small_network(0.25f);
  Parameters parameters(graph, where ? *where : context(network_contexts().back()), o.seed);
  const CubeDataset training(18), validation(7, 6, 99);
  o.batch = samples_per_step / world().size();
  o.epochs = 3;
  o.sync = SyncMode::parse(mode);
  Trainer trainer(graph, parameters, training, &validation, ranks ? ranks : &world(), o);
  if (!resume.empty()) trainer.resume(resume);
  Recorder recorder;
  trainer.run({&recorder});
  return {recorder.losses, recorder.metrics, everything(parameters)};
}

void expect_close_results(const ModeResult& got, const ModeResult& want, const std::string& mode) {
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (std::size_t i = 0; i < want.losses.size(); ++i)
    EXPECT_NEAR(got.losses[i], want.losses[i], 1e-5 * want.losses[i]) << mode << ", step " << i + 1;
  for (std::size_t i = 0; i < want.metrics.size(); ++i) EXPECT_NEAR(got.metrics[i], want.metrics[i], 1e-5) << mode;
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < want.parameters.size(); ++i) {
    difference += std::pow(got.parameters[i] - want.parameters[i], 2);
    norm += std::pow(want.parameters[i], 2);
  }
  EXPECT_LT(std::sqrt(difference / norm), 1e-5) << mode;
}

/// With a linear optimizer, also one with momentum: the mean of what the ranks do is what the mean gradient does.
TEST_F(SyncTest, ModesWithoutDelayAreSynchronousUpToRounding) {
  const auto want = train_in_mode(sync_options(), "synchronous");
  for (const char* mode : {"stale:0", "local:1", "post-local:1@1"})
    expect_close_results(train_in_mode(sync_options(), mode), want, mode);
  if (size() == 2)
    expect_close_results(train_in_mode(sync_options(), "gossip"), want, "gossip");  // the partner is the only one
}

TEST_F(SyncTest, OtherModesDiffer) {
  KEELSON_NEED_RANKS(2);
  const auto want = train_in_mode(sync_options(), "synchronous");
  for (const char* mode : {"lag", "stale:2", "local:3"}) {
    const auto got = train_in_mode(sync_options(), mode);
    EXPECT_EQ(got.losses.size(), want.losses.size()) << mode;
    EXPECT_NEAR(got.losses[0], want.losses[0], 1e-5 * want.losses[0]) << mode;  // before any update
    double difference = 0;
    for (std::size_t i = 0; i < want.parameters.size(); ++i)
      difference = std::max<double>(difference, std::abs(got.parameters.at(i) - want.parameters[i]));
    EXPECT_GT(difference, 1e-4) << mode;
  }
}

/// The ranks' part of lag alone: with any number of ranks it is what one rank does.
TEST_F(SyncTest, LagDoesNotDependOnTheNumberOfRanks) {
  const auto got = train_in_mode(sync_options(), "lag");
  const auto graph = small_network(0.25f);
  auto o = sync_options();
  Parameters parameters(graph, context(network_contexts().back()), o.seed);
  const CubeDataset training(18), validation(7, 6, 99);
  o.batch = samples_per_step;
  o.epochs = 3;
  o.sync = SyncMode::parse("lag");
  Recorder recorder;
  Trainer(graph, parameters, training, &validation, nullptr, o).run({&recorder});
  expect_close_results(got, {recorder.losses, recorder.metrics, everything(parameters)}, "lag");
}

constexpr const char* all_modes[] = {"lag", "stale:0", "stale:3", "gossip", "local:4", "post-local:2@1"};

TEST_F(SyncTest, AllRanksHaveTheSameBitsAtTheEnd) {
  auto adam = sync_options();
  adam.optimizer = std::make_shared<Adam>();
  adam.schedule.base = 1e-3;
  for (const auto& o : {sync_options(), adam})
    for (const char* mode : all_modes) {
      const auto t = train_in_mode(o, mode);
      auto first = t.parameters;
      world().broadcast(first.data(), first.size() * sizeof(float), 0);
      EXPECT_EQ(first, t.parameters) << mode;
      auto losses = t.losses;
      world().broadcast(losses.data(), losses.size() * sizeof(double), 0);
      EXPECT_EQ(losses, t.losses) << mode;
    }
}

/// The host queues steps ahead, and what ranks exchange lies in memory that is the device's alone.
TEST_F(SyncTest, ADeviceThatTheHostRunsAheadOfDoesTheSame) {
  for (const char* mode : all_modes) {
    const auto fake = make_fake_async_context();
    const auto ranks = comm::on_device(world(), fake->device(), "staged");
    const auto got = train_in_mode(sync_options(), mode, {}, fake.get(), ranks.get());
    expect_close_results(got, train_in_mode(sync_options(), mode, {}, &context("kokkos")), mode);
  }
}

TEST_F(SyncTest, ResumesBitForBitFromACheckpointOfTheRun) {
  for (const char* mode : all_modes) {
    std::optional<Folder> folder;
    std::string path;
    if (rank() == 0) path = folder.emplace().path().string();
    path = world().allgather(path)[0];
    auto o = sync_options();
    o.optimizer = std::make_shared<Adam>();
    o.schedule.base = 1e-3;
    o.checkpoints.folder = path;
    o.checkpoints.steps = 7;  // also in the second epoch
    o.checkpoints.keep = 100;
    const auto whole = train_in_mode(o, mode);
    world().barrier();
    const auto resumed = train_in_mode(o, mode, CheckpointFolder(path, 1).path_of(7));
    EXPECT_EQ(resumed.parameters, whole.parameters) << mode;
    EXPECT_EQ(resumed.losses, std::vector<double>(whole.losses.begin() + 7, whole.losses.end())) << mode;
    world().barrier();
  }
}

TEST_F(SyncTest, OneRanksWishStopsAllAfterTheSameStep) {
  for (const char* mode : all_modes) {
    auto o = sync_options();
    int asked = 0;
    o.interrupted = [&] { return ++asked >= 3 && rank() == size() - 1; };
    const auto steps = train_in_mode(o, mode).losses.size();
    EXPECT_GE(steps, 3u) << mode;
    EXPECT_LE(steps, 6u) << mode;  // the vote is known as many steps later as ranks may be apart
    for (const auto& other : world().allgather(std::to_string(steps))) EXPECT_EQ(other, std::to_string(steps)) << mode;
  }
}

TEST_F(SyncTest, ALossThatIsNotFiniteStopsAllRanks) {
  const auto graph = small_network(0);
  for (const char* mode : all_modes) {
    Parameters parameters(graph, context(network_contexts().back()), 1);
    CubeDataset training(16);
    training.poisoned = 7;  // of the second batch, its last
    auto o = sync_options();
    o.shuffle = false;
    o.batch = samples_per_step / size();
    o.sync = SyncMode::parse(mode);
    Trainer trainer(graph, parameters, training, nullptr, &world(), o);
    const auto text = message_of<Error>([&] { trainer.run(); });
    EXPECT_NE(text.find("in step 2 (epoch 1)"), std::string::npos) << mode << ": " << text;
    for (const auto& other : world().allgather(text)) EXPECT_EQ(other, text);
  }
}

TEST_F(SyncTest, AWireOf16BitsIsRefusedForParameters) {
  KEELSON_NEED_RANKS(2);
  auto o = sync_options();
  o.exchange.wire = Wire::bf16;
  for (const char* mode : {"stale:1", "gossip", "local:4", "post-local:2@1"}) {
    const auto text = message_of<InputError>([&] { train_in_mode(o, mode); });
    EXPECT_NE(text.find(mode + std::string(" with a wire of 16 bits")), std::string::npos) << text;
  }
  EXPECT_EQ(train_in_mode(o, "lag").losses.size(), 15u);
}

}  // namespace
}  // namespace keelson::testing
