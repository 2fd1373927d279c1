#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/optim/adam.hpp"
#include "engine/train/sync/partners.hpp"
#include "engine/train/sync/sync_mode.hpp"
#include "tests/support/contexts.hpp"
#include "tests/train/support.hpp"

namespace keelson::testing {
namespace {

TEST(SyncMode, IsReadAndWritten) {
  for (const char* text : {"synchronous", "lag", "stale:0", "stale:4", "gossip", "local:1", "local:16",
                           "post-local:8@30", "post-local:2@0"})
    EXPECT_EQ(SyncMode::parse(text).to_string(), text);
  EXPECT_EQ(SyncMode::parse("stale:4").bound, 4);
  EXPECT_EQ(SyncMode::parse("post-local:8@30").period, 8);
  EXPECT_EQ(SyncMode::parse("post-local:8@30").epochs, 30);
}

TEST(SyncMode, RefusesOtherTexts) {
  for (const char* text : {"", "sync", "lag:1", "stale", "stale:", "stale:-1", "stale:1.5", "gossip:2", "local",
                           "local:0", "local:8x", "post-local:8", "post-local:@3", "post-local:8@", "post-local:0@1"}) {
    const auto message = message_of<InputError>([&] { SyncMode::parse(text); });
    EXPECT_NE(message.find("'" + std::string(text) + "'"), std::string::npos) << text << ": " << message;
    EXPECT_NE(message.find("stale:STEPS"), std::string::npos) << message;
  }
}

TEST(SyncMode, SaysWhenRanksWorkApart) {
  EXPECT_FALSE(SyncMode::parse("synchronous").updates_locally(5));
  EXPECT_FALSE(SyncMode::parse("lag").updates_locally(5));
  EXPECT_TRUE(SyncMode::parse("local:2").updates_locally(0));
  EXPECT_FALSE(SyncMode::parse("post-local:2@3").updates_locally(2));
  EXPECT_TRUE(SyncMode::parse("post-local:2@3").updates_locally(3));
}

TEST(GossipPartners, SendToOneRankAndReceiveFromOne) {
  for (const int ranks : {2, 3, 4, 5, 8, 13, 16})
    for (std::int64_t step = 0; step < 40; ++step) {
      std::set<int> receivers;
      for (int r = 0; r < ranks; ++r) {
        const auto p = gossip_partners(r, ranks, 7, step);
        EXPECT_NE(p.to, r);
        EXPECT_EQ(gossip_partners(p.to, ranks, 7, step).from, r);
        receivers.insert(p.to);
      }
      EXPECT_EQ(static_cast<int>(receivers.size()), ranks);
    }
}

TEST(GossipPartners, AllPairsMeet) {
  for (const int ranks : {2, 3, 4, 8, 12}) {
    std::set<std::pair<int, int>> met;
    for (std::int64_t step = 0; step < 40 * ranks; ++step)
      for (int r = 0; r < ranks; ++r) met.emplace(r, gossip_partners(r, ranks, 7, step).to);
    EXPECT_EQ(static_cast<int>(met.size()), ranks * (ranks - 1)) << ranks;
  }
}

/// What a rank held at the beginning of a round has reached all ranks at its end, with the same weight for powers of 2.
TEST(GossipPartners, ARoundAveragesOverAllRanks) {
  for (const int ranks : {2, 4, 8, 16, 6}) {
    int steps = 0;
    while (1 << steps < ranks) ++steps;
    for (int round = 0; round < 5; ++round) {
      std::vector<double> values(static_cast<std::size_t>(ranks));
      values[0] = 1;
      for (int k = 0; k < steps; ++k) {
        const auto before = values;
        for (int r = 0; r < ranks; ++r) {
          const int from = gossip_partners(r, ranks, 3, round * steps + k).from;
          values[static_cast<std::size_t>(r)] =
              (before[static_cast<std::size_t>(r)] + before[static_cast<std::size_t>(from)]) / 2;
        }
      }
      for (const double v : values) {
        EXPECT_GT(v, 0);
        if (1 << steps == ranks) {
          EXPECT_DOUBLE_EQ(v, 1.0 / ranks);
        }
      }
    }
  }
}

struct ModeResult {
  std::vector<double> losses;
  std::vector<float> parameters;
};

ModeResult train_in_mode(TrainerOptions o, const std::string& mode, const std::filesystem::path& resume = {}) {
  const auto graph = small_network();
  Parameters parameters(graph, context(network_contexts().back()), o.seed);
  const CubeDataset training(18), validation(7, 6, 99);
  o.sync = SyncMode::parse(mode);
  Trainer trainer(graph, parameters, training, &validation, nullptr, o);
  if (!resume.empty()) trainer.resume(resume);
  Recorder recorder;
  trainer.run({&recorder});
  return {recorder.losses, everything(parameters)};
}

TEST(Sync, OneRankAloneIsSynchronous) {
  const auto want = train_in_mode(small_options(), "synchronous");
  for (const char* mode : {"stale:2", "gossip", "local:3", "post-local:3@1"}) {
    const auto got = train_in_mode(small_options(), mode);
    EXPECT_EQ(got.parameters, want.parameters) << mode;
    EXPECT_EQ(got.losses, want.losses) << mode;
  }
}

/// Each step's gradient, computed at the parameters of that step, moves them one step later.
TEST(Sync, LagMovesByTheGradientOfTheStepBefore) {
  const auto graph = small_network(0);
  auto& c = context(network_contexts().back());
  const CubeDataset training(18);
  auto o = small_options();
  o.optimizer = make_sgd(0);
  o.shuffle = false;
  o.sync = SyncMode::parse("lag");
  o.max_steps = 3;
  o.profiled_steps = 0;
  Parameters got(graph, c, o.seed);
  Trainer(graph, got, training, nullptr, nullptr, o).run();

  Parameters want(graph, c, o.seed);
  Executor executor(graph, want, {.batch = o.batch});
  std::map<std::string, std::vector<float>> before;
  for (int step = 0; step < 3; ++step) {
    std::vector<float> x(static_cast<std::size_t>(o.batch) * 2 * 216), y(static_cast<std::size_t>(o.batch) * 2);
    for (std::int64_t i = 0; i < o.batch; ++i) {
      void* dst[] = {x.data() + i * 2 * 216, y.data() + i * 2};
      training.read(step * o.batch + i, dst);
    }
    c.device().copy_from_host(executor.input("x").raw(), x.data(), x.size() * sizeof(float));
    c.device().copy_from_host(executor.input("y").raw(), y.data(), y.size() * sizeof(float));
    ops::StepParams s;
    s.inverse_samples = 1.0f / static_cast<float>(o.batch);
    executor.forward(s);
    executor.backward();
    for (Parameter& p : want.all()) {
      auto& late = before[p.name];
      if (!late.empty()) {
        auto values = want.get(p);
        for (std::size_t i = 0; i < values.size(); ++i) values[i] -= 0.02f * late[i];
        want.set(p, values);
      }
      late = executor.gradient(p.name);
    }
  }
  for (const Parameter& p : got.all()) {
    const auto a = got.get(p), b = want.get(want.at(p.name));
    const auto waiting = got.get(p, 0), &last = before.at(p.name);  // of the next step
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_NEAR(a[i], b[i], 1e-6) << p.name << " " << i;
      ASSERT_NEAR(waiting[i], last[i], 1e-6) << p.name << " " << i;
    }
  }
}

TEST(Sync, LagResumesBitForBit) {
  Folder folder;
  const auto whole = train_in_mode(small_options(), "lag");
  auto o = small_options();
  o.checkpoints.folder = folder.path();
  o.max_steps = 7;
  train_in_mode(o, "lag");
  EXPECT_EQ(train_in_mode(small_options(), "lag", find_checkpoint(folder.path(), false)).parameters, whole.parameters);
  const auto text = message_of<InputError>(
      [&] { train_in_mode(small_options(), "synchronous", find_checkpoint(folder.path(), false)); });
  EXPECT_NE(text.find("lagged_gradient"), std::string::npos) << text;
}

/// With clipping and Adam, and in a change of the network, the gradient of the step before is as other moments.
TEST(Sync, LagWorksWithClippingAndAdam) {
  auto adam = std::make_shared<Adam>();
  adam->clip_norm = 0.1f;
  auto o = small_options();
  o.optimizer = adam;
  o.schedule.base = 1e-3;
  const auto late = train_in_mode(o, "lag"), prompt = train_in_mode(o, "synchronous");
  EXPECT_NE(late.losses, prompt.losses);
  EXPECT_EQ(late.losses[0], prompt.losses[0]);
  EXPECT_EQ(late.losses.size(), prompt.losses.size());
}

TEST(Sync, Fp16IsRefused) {
  auto o = small_options();
  o.precision = Precision::fp16;
  const auto text = message_of<InputError>([&] { train_in_mode(o, "lag"); });
  EXPECT_NE(text.find("lag with fp16"), std::string::npos) << text;
}

TEST(Sync, ReproducibleSumsAreRefused) {
  auto o = small_options();
  o.exchange.reproducible = true;
  const auto text = message_of<InputError>([&] { train_in_mode(o, "local:2"); });
  EXPECT_NE(text.find("local:2 with reproducible sums"), std::string::npos) << text;
}

}  // namespace
}  // namespace keelson::testing
