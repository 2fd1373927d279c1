#include "engine/train/run_times.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "tests/mpi/world.hpp"
#include "tests/support/contexts.hpp"
#include "tests/train/support.hpp"

namespace keelson::testing {
namespace {

class RunTimesTest : public MpiTest {
 protected:
  /// Trains two epochs of five steps, with validation. Returns where the time went.
  static RunTimes train(std::vector<TrainObserver*> observers) {
    const auto graph = small_network();
    Parameters parameters(graph, context(network_contexts().back()), 1);
    const CubeDataset training(20), validation(8, 6, 99);
    TrainerOptions o;
    o.batch = 4 / world().size();
    o.epochs = 2;
    Trainer trainer(graph, parameters, training, &validation, &world(), o);
    trainer.run(std::move(observers));
    return trainer.run_times().value();
  }
};

/// Sleeps in every step: host work that counts as compute.
class Sleeper final : public TrainObserver {
 public:
  void on_batch(const RunState&, const Batch&) override { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }
};

TEST_F(RunTimesTest, TheLeastWaitOfAStepIsCommunication) {
  WaitSplit waits;
  constexpr int steps = 2500;
  for (int s = 0; s < steps; ++s) waits.add(0.5 + (rank() + s) % size());
  EXPECT_DOUBLE_EQ(waits.communication(world()), 0.5 * steps);
}

TEST_F(RunTimesTest, TimesAddUpAndNameTheSlowRank) {
  KEELSON_NEED_RANKS(2);
  Sleeper sleeper;
  const int slow = size() - 1;
  const RunTimes times = train(rank() == slow ? std::vector<TrainObserver*>{&sleeper} : std::vector<TrainObserver*>{});
  EXPECT_EQ(times.ranks, size());
  if (rank() != 0) return;
  EXPECT_EQ(times.steps, 10);
  double sum = 0, share = 0;
  for (std::size_t p = 0; p < time_parts; ++p) {
    const RunTimes::Spread& s = times.parts[p];
    EXPECT_LE(0, s.least);
    EXPECT_LE(s.least, s.mean * 1.000001);
    EXPECT_LE(s.mean, s.most * 1.000001);
    sum += s.mean;
    share += times.share(static_cast<TimePart>(p));
  }
  EXPECT_NEAR(sum, times.seconds, 1e-9);
  EXPECT_NEAR(share, 1, 1e-9);
  const auto& communication = times[TimePart::communication];
  EXPECT_NEAR(communication.least, communication.most, 1e-6) << "the same on all ranks, up to rounding of their times";
  EXPECT_EQ(times[TimePart::compute].most_rank, slow);
  EXPECT_FALSE(times[TimePart::compute].most_host.empty());
  if (times.host_runs_ahead) return;
  EXPECT_GT(times[TimePart::imbalance].mean, communication.mean);
  EXPECT_EQ(times[TimePart::imbalance].least_rank, slow);
}

}  // namespace
}  // namespace keelson::testing
