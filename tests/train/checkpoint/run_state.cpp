#include "engine/train/checkpoint/run_state.hpp"

#include <gtest/gtest.h>

#include "engine/train/records.hpp"

namespace keelson::testing {
namespace {

/// After 3 of 5 steps of an epoch of 20 samples, on two replicas of two ranks with 2 samples each.
RunState of_two_replicas() {
  RunState s;
  s.step = s.step_in_epoch = 3;
  s.global_batch = 4;
  s.world_size = 4;
  s.train_samples = 20;
  return s;
}

TEST(RunStateAfterALoss, TheReplicasThatAreLeftDivideTheRestOfTheEpoch) {
  RunState s = of_two_replicas();
  go_on_with(s, 2);
  EXPECT_EQ(s.global_batch, 2);
  EXPECT_EQ(s.world_size, 2);
  EXPECT_EQ(samples_in_epoch(s), 12);
  EXPECT_EQ(steps_of_epoch(s), 3 + 4);
  EXPECT_DOUBLE_EQ(position(s), 0.6);
}

/// One sample in each replica: fewer samples than ranks.
TEST(RunStateAfterALoss, ABatchIsDividedByReplicas) {
  RunState s = of_two_replicas();
  s.global_batch = 2;
  go_on_with(s, 2);
  EXPECT_EQ(s.global_batch, 1);
}

TEST(RunStateAfterALoss, TheLossOfARankThatWaitsChangesNothing) {
  RunState s = of_two_replicas();
  go_on_with(s, 4);
  EXPECT_EQ(s.global_batch, 4);
  EXPECT_EQ(s.part_step, 0);
  EXPECT_EQ(s.part_sample, 0);
  EXPECT_EQ(steps_of_epoch(s), 5);
}

TEST(Recovery, SaysWhoGoesOnAndWhoWaits) {
  Recovery r{.step = 40, .during = "a step", .lost = {{2, "node7"}}, .ranks = 3};
  const auto says = [&](const std::string& text) {
    EXPECT_EQ(r.to_string().substr(0, r.to_string().find(" Seconds:")),
              "rank 2 (node7) was lost in a step after step 40; " + text);
  };
  says("3 ranks go on.");
  r.ranks = 1;
  says("1 rank goes on.");
  r.ranks = r.space = 2;
  says("1 replica of 2 ranks goes on.");
  r.waiting = 1;
  says("1 replica of 2 ranks goes on, and 1 rank waits.");
  r = {.step = 40, .during = "a step", .lost = r.lost, .ranks = 12, .space = 4, .waiting = 3};
  says("3 replicas of 4 ranks go on, and 3 ranks wait.");
  r.waiting = 0;
  r.restarted_from = 36;
  says("spare ranks take their place, and 3 replicas of 4 ranks go on from step 36.");
}

}  // namespace
}  // namespace keelson::testing
