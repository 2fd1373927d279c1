// The code of "Many networks at once" in docs/adding-a-network.md (tests/cli/test_readme.py compares them), and what it
// does.
#include <gtest/gtest.h>

#include "tests/support/contexts.hpp"
#include "tests/train/support.hpp"

#include "engine/ensemble/member_seed.hpp"
#include "engine/train/stack/stacked_training.hpp"

using namespace keelson;

/// Trains `count` networks of one design from different initial values. Returns the validation loss of each.
std::vector<double> train_many(Context& context, std::shared_ptr<const Graph> net, std::size_t count,
                               const Dataset& training, const Dataset& validation) {
  std::vector<StackedMember> members(count);
  for (std::size_t m = 0; m < count; ++m) {
    members[m].graph = net;  // or a design of its own
    members[m].seed = ensemble::member_seed(1, static_cast<std::int64_t>(m));
    members[m].schedule.base = 0.02;
    members[m].epochs = 10;
    members[m].patience = 3;
  }
  StackedTraining stack(context, members, training, &validation, {.batch = 8});
  stack.run();  // or epoch by epoch: train_epoch(), stop()
  std::vector<double> losses;
  for (std::size_t m = 0; m < count; ++m) losses.push_back(stack.record(m).state.validation_loss);
  return losses;
}

namespace {

using namespace keelson::testing;

TEST(ManyNetworks, Learn) {
  const CubeDataset training(64), validation(32, 6, 99);
  const auto net = std::make_shared<const Graph>(small_network(0));
  const auto losses = train_many(context(network_contexts().back()), net, 3, training, validation);
  ASSERT_EQ(losses.size(), 3u);
  for (const double loss : losses) EXPECT_LT(loss, 0.3);  // always predicting the mean: 1/3
  EXPECT_NE(losses[0], losses[1]);
}

}  // namespace
