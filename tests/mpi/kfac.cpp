#include "engine/optim/kfac.hpp"

#include <cmath>

#include "engine/base/fnv1a.hpp"
#include "tests/mpi/trained.hpp"
#include "tests/mpi/world.hpp"

/// Ranks add up factors and share out inverses, and all have the same.
namespace keelson::testing {
namespace {

class KfacRanksTest : public MpiTest {
 protected:
  void SetUp() override {
    if (!context(network_contexts().back()).try_make(ops::FactorInversesDesc{{{}, {}}, {}, 0.1f}))
      GTEST_SKIP() << "this build has no LAPACK";
  }
  static TrainerOptions options(bool eigen = false, std::int32_t delay = 0) {
    auto kfac = std::make_shared<Kfac>();
    kfac->eigen = eigen;
    kfac->damping = 0.03f;
    kfac->factor_update_steps = 2;
    kfac->inv_update_steps = 4;
    kfac->inv_update_delay = delay;
    kfac->factor_positions = 50;
    kfac->block_size = 30;
    auto o = small_options();
    o.optimizer = kfac;
    o.schedule.base = 1e-2;
    o.exchange.bucket_bytes = 1000;
    return o;
  }
  /// The largest difference of the losses.
  static double difference(const std::vector<double>& a, const std::vector<double>& b) {
    EXPECT_EQ(a.size(), b.size());
    double most = 0;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) most = std::max(most, std::abs(a[i] - b[i]));
    return most;
  }
};

TEST_F(KfacRanksTest, TrainAsOneRankDoes) {
  KEELSON_NEED_RANKS(2);
  for (const auto& [eigen, delay] : {std::pair{false, 0}, {true, 0}, {true, 2}}) {
    const Trained together = train_cubes(&world(), 8, options(eigen, delay));
    const auto hashes = world().allgather(
        fmt::format("{:016x}", fnv1a(together.parameters.data(), together.parameters.size() * sizeof(float))));
    for (const auto& h : hashes) EXPECT_EQ(h, hashes[0]) << "parameters, factors and inverses have the same bits";
    const Trained alone = train_cubes(nullptr, 8, options(eigen, delay));
    EXPECT_LT(difference(together.losses, alone.losses), 1e-3);
    EXPECT_LT(difference(together.validation_losses, alone.validation_losses), 1e-3);
  }
}

TEST_F(KfacRanksTest, ResumeOnAnotherNumberOfRanks) {
  KEELSON_NEED_RANKS(2);
  for (const int delay : {0, 3}) {
    std::optional<Folder> folder;
    std::string name;
    if (rank() == 0) name = folder.emplace().path().string();
    const auto shared = world().allgather(name)[0];
    const auto o = options(false, delay);
    const Trained whole = train_cubes(&world(), 8, o);
    auto first = o;
    first.checkpoints.folder = shared;
    first.max_steps =
        3;  // between two updates of the factors, and between two of the inverses, or while they are computed
    train_cubes(&world(), 8, first);
    world().barrier();
    const auto checkpoint = find_checkpoint(shared, false);
    EXPECT_EQ(train_cubes(&world(), 8, o, checkpoint).parameters, whole.parameters);
    const Trained alone = train_cubes(nullptr, 8, o, checkpoint);
    const std::vector<double> rest(whole.losses.end() - std::ssize(alone.losses), whole.losses.end());
    EXPECT_LT(difference(alone.losses, rest), 1e-3);
    world().barrier();
  }
}

TEST_F(KfacRanksTest, RefuseParts) {
  KEELSON_NEED_RANKS(2);
  const auto refusal = [&](const std::function<void(TrainerOptions&)>& change) {
    auto o = options();
    change(o);
    try {
      train_cubes(small_network(0, 64), &world(), 8, o);
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  const auto expect = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(refusal([](TrainerOptions& o) { o.exchange.shards = OptimizerShards::moments; }), "--shard-optimizer");
  expect(refusal([&](TrainerOptions& o) { o.replica.channel = 2; }), "--channel-parallel");
  expect(refusal([&](TrainerOptions& o) { o.replica.space = 2; }), "--spatial");
}

}  // namespace
}  // namespace keelson::testing
