#include "engine/optim/shampoo.hpp"

#include <cmath>

#include "engine/base/fnv1a.hpp"
#include "engine/execute/executor.hpp"
#include "tests/mpi/trained.hpp"
#include "tests/mpi/world.hpp"

/// Ranks share out the roots of Shampoo, and all have the same.
namespace keelson::testing {
namespace {

class ShampooRanksTest : public MpiTest {
 protected:
  void SetUp() override {
    Context& where = context(network_contexts().back());
    if (!where.try_make(ops::InverseRootsDesc{{TensorDesc::plain({1, 2, 2})}, {{0, 0, 2, 2}}, 1e-6f}))
      GTEST_SKIP() << "this build has no LAPACK";
  }
  /// Roots of the steps 1, 4 ..., used `delay` steps later.
  static TrainerOptions options(std::int32_t delay = 0) {
    auto shampoo = std::make_shared<Shampoo>();
    shampoo->precondition_frequency = 3;
    shampoo->start_preconditioning_step = 1;
    shampoo->precondition_delay = delay;
    shampoo->max_preconditioner_dim = 64;
    shampoo->epsilon = 1e-4f;
    auto o = small_options();
    o.optimizer = shampoo;
    o.schedule.base = 1e-3;
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

TEST_F(ShampooRanksTest, TrainAsOneRankDoes) {
  KEELSON_NEED_RANKS(2);
  for (const int delay : {0, 2}) {
    const Trained together = train_cubes(&world(), 8, options(delay));
    const auto hashes = world().allgather(
        fmt::format("{:016x}", fnv1a(together.parameters.data(), together.parameters.size() * sizeof(float))));
    for (const auto& h : hashes) EXPECT_EQ(h, hashes[0]) << "parameters, factors and roots have the same bits";
    const Trained alone = train_cubes(nullptr, 8, options(delay));
    EXPECT_LT(difference(together.losses, alone.losses), 1e-4);
    EXPECT_LT(difference(together.validation_losses, alone.validation_losses), 1e-4);
  }
}

/// Replicas of several ranks compute the same from the same sums; each root is still computed once.
TEST_F(ShampooRanksTest, TrainReplicasOfSeveralRanks) {
  KEELSON_NEED_RANKS(2);
  auto o = options();
  const Trained alone = train_cubes(nullptr, 4, o);
  for (const int space : spaces()) {
    o.replica.space = space;
    EXPECT_LT(difference(train_cubes(&world(), 4, o).losses, alone.losses), 1e-4) << space;
  }
}

TEST_F(ShampooRanksTest, ResumeOnAnotherNumberOfRanks) {
  KEELSON_NEED_RANKS(2);
  for (const int delay : {0, 2}) {
    std::optional<Folder> folder;
    std::string name;
    if (rank() == 0) name = folder.emplace().path().string();
    const auto shared = world().allgather(name)[0];
    const auto o = options(delay);
    const Trained whole = train_cubes(&world(), 8, o);
    auto first = o;
    first.checkpoints.folder = shared;
    first.max_steps = 3;  // between the roots of the steps 1 and 4, and while delayed ones are computed
    train_cubes(&world(), 8, first);
    world().barrier();
    const auto checkpoint = find_checkpoint(shared, false);
    EXPECT_EQ(train_cubes(&world(), 8, o, checkpoint).parameters, whole.parameters);
    const Trained alone = train_cubes(nullptr, 8, o, checkpoint);
    const std::vector<double> rest(whole.losses.end() - std::ssize(alone.losses), whole.losses.end());
    EXPECT_LT(difference(alone.losses, rest), 1e-4);
    world().barrier();
  }
}

TEST_F(ShampooRanksTest, RefuseParts) {
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
}

}  // namespace
}  // namespace keelson::testing
