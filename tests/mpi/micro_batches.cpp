#include <gtest/gtest.h>

#include <cmath>

#include "engine/optim/adam.hpp"
#include "engine/optim/sgd.hpp"
#include "tests/mpi/trained.hpp"
#include "tests/mpi/world.hpp"

/// Gradient accumulation over ranks: TrainerOptions::micro_batches.
namespace keelson::testing {
namespace {

class MicroBatchesMpiTest : public MpiTest {
 protected:
  static TrainerOptions options(std::int64_t micro_batches) {
    auto o = small_options();
    o.optimizer = make_sgd(0.9f);
    o.schedule.base = 1e-2;
    o.epochs = 2;
    o.exchange.bucket_bytes = 1000;  // several
    o.micro_batches = micro_batches;
    return o;
  }

  static void expect_near(const Trained& got, const Trained& want, const std::string& what) {
    ASSERT_EQ(got.losses.size(), want.losses.size()) << what;
    for (std::size_t i = 0; i < got.losses.size(); ++i)
      EXPECT_NEAR(got.losses[i], want.losses[i], 1e-5 * std::abs(want.losses[i])) << what << ", step " << i;
    ASSERT_EQ(got.parameters.size(), want.parameters.size()) << what;
    float difference = 0;
    for (std::size_t i = 0; i < got.parameters.size(); ++i)
      difference = std::max(difference, std::abs(got.parameters[i] - want.parameters[i]));
    EXPECT_LE(difference, 1e-5f) << what;
    EXPECT_NE(got.parameters, Trained{}.parameters);
  }
};

/// Four samples per rank; the last step of an epoch has fewer, so some micro-batches are short or empty.
TEST_F(MicroBatchesMpiTest, TrainAsOnePassDoes) {
  const std::int64_t global_batch = 4L * world().size();
  if (global_batch > 19) GTEST_SKIP() << "19 samples";
  const Trained whole = train_cubes(&world(), global_batch, options(1));
  for (const std::int64_t count : {2, 4})
    expect_near(train_cubes(&world(), global_batch, options(count)), whole, fmt::format("{} micro-batches", count));
}

TEST_F(MicroBatchesMpiTest, GoWithLag) {
  const std::int64_t global_batch = 4L * world().size();
  if (global_batch > 19) GTEST_SKIP() << "19 samples";
  auto whole = options(1), parts = options(2);
  whole.sync = parts.sync = SyncMode::parse("lag");
  expect_near(train_cubes(&world(), global_batch, parts), train_cubes(&world(), global_batch, whole), "lag");
}

/// Rows are exchanged in each pass.
TEST_F(MicroBatchesMpiTest, GoWithPartsOfSamples) {
  KEELSON_NEED_RANKS(2);
  auto whole = options(1), parts = options(4);
  parts.replica.space = whole.replica.space = 2;
  if (world().size() % 2 != 0) GTEST_SKIP() << "an odd number of ranks";
  expect_near(train_cubes(&world(), 4L * world().size() / 2, parts),
              train_cubes(&world(), 4L * world().size() / 2, whole), "replicas of 2");
}

TEST_F(MicroBatchesMpiTest, RefuseShardsOfGradients) {
  KEELSON_NEED_RANKS(2);
  auto o = options(2);
  o.exchange.shards = OptimizerShards::gradients;
  EXPECT_THROW(train_cubes(&world(), 4L * world().size(), o), InputError);
}

}  // namespace
}  // namespace keelson::testing
