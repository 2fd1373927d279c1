#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "comm/communicators.hpp"
#include "tests/mpi/world.hpp"

namespace keelson::testing {
namespace {

/// Another world whose reports are kept.
class WatchdogTest : public MpiTest {
 protected:
  void SetUp() override {
    comm::Watchdog watchdog;
    watchdog.seconds = 1;
    watchdog.report = [this](const std::string& text) { reports_.push_back(text); };
    watched_ = comm::make_world(watchdog);
  }

  /// One rank is late for a reduction. Returns the reports of all ranks.
  std::vector<std::string> reports_when_late(int late, double seconds) {
    std::vector<float> data(10, 1.0f);
    const auto sum = watched_->make_allreduce(data.data(), data.size(), "gradient bucket 3");
    watched_->barrier();
    if (rank() == late) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
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
    const auto reports = reports_when_late(late, 2.6);
    ASSERT_EQ(reports.size(), 2u) << "two limits passed, and one rank speaks for all";
    for (const std::string& report : reports) {
      EXPECT_TRUE(contains(report, "for gradient bucket 3; not waiting for it: rank " + std::to_string(late) + " ("))
          << report;
    }
  }
}

TEST_F(WatchdogTest, WatchesBlockingCallsToo) {
  KEELSON_NEED_RANKS(2);
  if (rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1700));
  watched_->barrier();
  if (rank() == 0) {
    ASSERT_EQ(reports_.size(), 1u);
    EXPECT_TRUE(contains(reports_[0], "for a barrier; not waiting for it: rank 1")) << reports_[0];
  } else {
    EXPECT_TRUE(reports_.empty());
  }
}

TEST_F(WatchdogTest, IsSilentInTime) { EXPECT_TRUE(reports_when_late(0, 0.3).empty()); }

TEST_F(WatchdogTest, WatchesGroups) {
  KEELSON_NEED_RANKS(4);
  const auto pair = watched_->split(rank() / 2, rank());
  if (rank() == 3) std::this_thread::sleep_for(std::chrono::milliseconds(1700));
  pair->barrier();
  ASSERT_EQ(reports_.size(), rank() == 2 ? 1u : 0u);
  if (rank() == 2) {
    EXPECT_TRUE(contains(reports_[0], "rank 0 (")) << reports_[0];
  }
}

}  // namespace
}  // namespace keelson::testing
