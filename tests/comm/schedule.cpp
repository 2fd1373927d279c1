#include "comm/allreduce/schedule.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "comm/allreduce/algorithm.hpp"

namespace keelson::comm::detail {
namespace {

using Make = Schedule (*)(int, int);
using Values = std::vector<std::int64_t>;

/// All ranks of a schedule in one process. Messages between two ranks arrive in the order in which they were sent.
class Ranks {
 public:
  Ranks(Make make, int ranks, std::size_t count) : count_(count), posted_(static_cast<std::size_t>(ranks)) {
    for (int r = 0; r < ranks; ++r) {
      schedules_.push_back(make(r, ranks));
      Values& mine = values_.emplace_back(count);
      for (std::size_t i = 0; i < count; ++i) mine[i] = (std::int64_t{1} << (2 * r)) * static_cast<std::int64_t>(i + 1);
    }
    step_.resize(static_cast<std::size_t>(ranks));
    received_.resize(static_cast<std::size_t>(ranks));
    sent_.resize(static_cast<std::size_t>(ranks));
  }

  /// Whether all get to their end.
  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < schedules_.size(); ++r) moved = advance(r) || moved;
    }
    for (std::size_t r = 0; r < schedules_.size(); ++r)
      if (step_[r] != schedules_[r].steps.size()) return false;
    for (const auto& [pair, messages] : wires_)
      if (!messages.empty()) return false;
    return true;
  }

  const Values& values(std::size_t rank) const { return values_[rank]; }
  std::size_t sent(std::size_t rank) const { return sent_[rank]; }  ///< elements
  std::size_t steps(std::size_t rank) const { return schedules_[rank].steps.size(); }

 private:
  bool advance(std::size_t r) {
    const Schedule& schedule = schedules_[r];
    if (step_[r] == schedule.steps.size()) return false;
    const ExchangeStep& step = schedule.steps[step_[r]];
    const auto at = [&](std::size_t block) { return static_cast<std::ptrdiff_t>(schedule.begin_of(block, count_)); };
    const auto begin = values_[r].begin();
    if (!posted_[r] && step.send_to >= 0) {
      wires_[{static_cast<int>(r), step.send_to}].emplace_back(begin + at(step.send_begin), begin + at(step.send_end));
      sent_[r] += static_cast<std::size_t>(at(step.send_end) - at(step.send_begin));
    }
    posted_[r] = true;
    if (step.receive_from >= 0) {
      auto& wire = wires_[{step.receive_from, static_cast<int>(r)}];
      if (wire.empty()) return false;
      const Values message = std::move(wire.front());
      wire.pop_front();
      EXPECT_EQ(static_cast<std::ptrdiff_t>(message.size()), at(step.receive_end) - at(step.receive_begin));
      auto to = begin + at(step.receive_begin);
      for (const std::int64_t v : message) *to = step.adds ? *to + v : v, ++to;
    }
    posted_[r] = false;
    ++step_[r];
    return true;
  }

  std::size_t count_;
  std::vector<Schedule> schedules_;
  std::vector<Values> values_;
  std::vector<std::size_t> step_, received_, sent_;
  std::vector<bool> posted_;
  std::map<std::pair<int, int>, std::deque<Values>> wires_;
};

/// The algorithms that have a schedule.
std::vector<std::string> names_with_schedule() {
  auto names = AllreduceAlgorithm::names();
  std::erase_if(names, [](const std::string& name) { return !AllreduceAlgorithm::parse(name).schedule(); });
  return names;
}

class ScheduleTest : public ::testing::TestWithParam<std::string> {
 protected:
  AllreduceAlgorithm algorithm() const { return AllreduceAlgorithm::parse(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(All, ScheduleTest, ::testing::ValuesIn(names_with_schedule()),
                         [](const auto& info) { return info.param; });

TEST_P(ScheduleTest, SumsOnEveryRank) {
  for (int ranks = 1; ranks <= 17; ++ranks)
    for (const std::size_t count : {0, 1, 2, 7, 16, 33, 100}) {
      Ranks all(algorithm().schedule(), ranks, count);
      ASSERT_TRUE(all.run()) << ranks << " ranks, " << count << " elements";
      Values expected(count);
      const std::int64_t terms = ((std::int64_t{1} << (2 * ranks)) - 1) / 3;  // 1 + 4 + 16 ...
      for (std::size_t i = 0; i < count; ++i) expected[i] = terms * static_cast<std::int64_t>(i + 1);
      for (int r = 0; r < ranks; ++r) EXPECT_EQ(all.values(static_cast<std::size_t>(r)), expected) << ranks;
    }
}

/// Every rounding of a term or of a sum is kept by the rank that rounds, so no value may be rounded by two ranks as a
/// final sum, and copies must have been rounded before.
TEST_P(ScheduleTest, RoundsEachFinalSumOnce) {
  if (!is_supported(algorithm(), {.wire = Wire::bf16})) GTEST_SKIP() << "is not used with fewer bits";
  for (int ranks = 2; ranks <= 17; ++ranks) {
    std::size_t rounded = 0, blocks = 0;
    for (int r = 0; r < ranks; ++r) {
      const Schedule schedule = algorithm().schedule()(r, ranks);
      blocks = schedule.blocks;
      bool sums_seen = false, received_all = false;
      for (const ExchangeStep& step : schedule.steps) {
        if (step.sends == ExchangeStep::Sends::sums) {
          EXPECT_FALSE(sums_seen);
          sums_seen = true;
          rounded += step.send_end - step.send_begin;
        }
        const bool copies = step.send_to >= 0 && step.sends == ExchangeStep::Sends::copies;
        EXPECT_TRUE(!copies || sums_seen || received_all);
        received_all = received_all || !step.adds;
      }
    }
    EXPECT_EQ(rounded, blocks) << ranks;
  }
}

TEST(RingTest, SendsTheLeastPossible) {
  Ranks all(&make_ring, 8, 800);
  ASSERT_TRUE(all.run());
  for (std::size_t r = 0; r < 8; ++r) {
    EXPECT_EQ(all.sent(r), 2 * 700U);
    EXPECT_EQ(all.steps(r), 14U);
  }
}

TEST(HalvingTest, SendsTheLeastPossibleInFewSteps) {
  Ranks all(&make_halving, 8, 800);
  ASSERT_TRUE(all.run());
  for (std::size_t r = 0; r < 8; ++r) {
    EXPECT_EQ(all.sent(r), 2 * 700U);
    EXPECT_EQ(all.steps(r), 6U);
  }
}

}  // namespace
}  // namespace keelson::comm::detail
