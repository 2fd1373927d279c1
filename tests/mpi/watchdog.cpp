#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "comm/communicators.hpp"
#include "engine/base/activity.hpp"
#include "tests/mpi/world.hpp"

namespace keelson::testing {
namespace {

/// Another world whose reports are kept. Times leave a second for a busy machine.
class WatchdogTest : public MpiTest {
 protected:
  static constexpr double limit = 2, late_by = 4.5;

  void SetUp() override {
    comm::WatchdogOptions watchdog;
    watchdog.seconds = limit;
    watchdog.report = [this](const std::string& text) { reports_.push_back(text); };
    watched_ = comm::make_world(watchdog);
    watched_->barrier();
    reports_.clear();
  }

  static void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

  /// One rank is late for a reduction. Returns the reports of all ranks.
  std::vector<std::string> reports_when_late(int late, double seconds) {
    std::vector<float> data(10, 1.0f);
    const auto sum = watched_->make_allreduce(data.data(), data.size(), "gradient bucket 3");
    watched_->barrier();
    if (rank() == late) sleep(seconds);
    sum->start();
    sum->wait();
    EXPECT_EQ(data[0], static_cast<float>(size()));
    std::string mine;
    for (const std::string& report : reports_) mine += report + "\n";
    std::vector<std::string> all;
    for (const std::string& text : world().allgather(mine))
      for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
        all.push_back(text.substr(at, text.find('\n', at) - at));
    return all;
  }

  std::unique_ptr<Communicator> watched_;
  std::vector<std::string> reports_;
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(WatchdogTest, NamesTheLateRankAndTheCall) {
  KEELSON_NEED_RANKS(2);
  for (int late : {0, size() - 1}) {
    reports_.clear();
    const auto reports = reports_when_late(late, late_by);
    ASSERT_FALSE(reports.empty());
    for (const std::string& report : reports) {
      EXPECT_TRUE(contains(report, "for gradient bucket 3; not waiting for it: rank " + std::to_string(late) + " ("))
          << report;
      EXPECT_TRUE(contains(report, late == 0 ? "watchdog: rank 1 (" : "watchdog: rank 0 (")) << "one speaks for all";
    }
  }
}

TEST_F(WatchdogTest, NamesTheStep) {
  KEELSON_NEED_RANKS(2);
  const Activity step(Activity::Kind::step, 12, 3);
  const auto reports = reports_when_late(1, late_by);
  ASSERT_FALSE(reports.empty());
  for (const std::string& report : reports)
    EXPECT_TRUE(contains(report, "for gradient bucket 3 in step 12 (epoch 3); not waiting for it: rank 1 (")) << report;
}

TEST_F(WatchdogTest, AJobThatWasSuspendedHasNotWaited) {
  KEELSON_NEED_RANKS(2);
  if (rank() == 0) {  // the lowest, who speaks
    watched_->watchdog().poll("the loss", 0.6);
    watched_->watchdog().poll("the loss", 3600);
    EXPECT_TRUE(reports_.empty());
    watched_->watchdog().poll("the loss", 3600 + limit);
    ASSERT_EQ(reports_.size(), 1u);
    EXPECT_TRUE(contains(reports_[0], "has waited 3 s for the loss")) << reports_[0];
  }
  watched_->barrier();
}

TEST_F(WatchdogTest, WatchesBlockingCallsToo) {
  KEELSON_NEED_RANKS(2);
  if (rank() == 1) sleep(late_by);
  watched_->barrier();
  if (rank() == 0) {
    ASSERT_FALSE(reports_.empty());
    EXPECT_TRUE(contains(reports_[0], "for a barrier; not waiting for it: rank 1")) << reports_[0];
  } else {
    EXPECT_TRUE(reports_.empty());
  }
}

TEST_F(WatchdogTest, NamesThePeerOfAMessage) {
  KEELSON_NEED_RANKS(2);
  std::vector<float> edge(10, 1.0f), halo(10);
  if (rank() == 1) sleep(late_by);
  if (rank() < 2) {
    const auto send = watched_->make_send(edge.data(), 40, 1 - rank(), "edge of conv1");
    const auto receive = watched_->make_receive(halo.data(), 40, 1 - rank(), "halo of conv1");
    send->start();
    receive->start();
    receive->wait();
    send->wait();
    EXPECT_EQ(halo, edge);
  }
  watched_->barrier();  // the others wait here, in a call that those two have not reached
  if (rank() == 0) {
    ASSERT_FALSE(reports_.empty());
    EXPECT_TRUE(contains(reports_[0], "s for halo of conv1 with rank 1 (")) << reports_[0];
    EXPECT_TRUE(contains(reports_[0], "; not waiting for anything: rank 1 (")) << reports_[0];
    EXPECT_EQ(contains(reports_[0], "; waiting for a later call: ranks 2 ("), size() > 2) << reports_[0];
  } else {
    EXPECT_TRUE(reports_.empty());
  }
  // Messages have not changed how ranks count calls.
  reports_.clear();
  for (const std::string& report : reports_when_late(1, late_by))
    EXPECT_TRUE(contains(report, "for gradient bucket 3; not waiting for it: rank 1 (")) << report;
}

TEST_F(WatchdogTest, IsSilentInTime) { EXPECT_TRUE(reports_when_late(0, limit / 8).empty()); }

TEST_F(WatchdogTest, WatchesGroups) {
  KEELSON_NEED_RANKS(4);
  const auto pair = watched_->split(rank() / 2, rank());
  if (rank() == 3) sleep(late_by);
  pair->barrier();
  EXPECT_EQ(reports_.empty(), rank() != 2);
  if (!reports_.empty()) {
    EXPECT_TRUE(contains(reports_[0], "not waiting for it: rank 3 ("))
        << "by its number in the group of all: " << reports_[0];
  }
}

}  // namespace
}  // namespace keelson::testing
