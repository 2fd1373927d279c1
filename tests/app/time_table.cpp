#include "apps/common/time_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace keelson::app {
namespace {

/// 100 s on four ranks, all of it compute but for `seconds` of one part.
RunTimes times(TimePart part, double seconds) {
  RunTimes t;
  t.ranks = 4;
  t.steps = 1000;
  t.seconds = 100;
  t.parts[static_cast<std::size_t>(TimePart::compute)] = {100 - seconds, 100 - seconds, 100 - seconds, 0, 0, "node1"};
  t.parts[static_cast<std::size_t>(part)] = {seconds, seconds, seconds, 0, 0, "node1"};
  return t;
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(TimeTable, HasALineForEachPartAndAdvice) {
  const auto text = time_table(times(TimePart::decoding, 30));
  EXPECT_TRUE(says(text, "where the time went: 1000 steps on 4 ranks, 100.0 s\n")) << text;
  EXPECT_TRUE(says(text, "compute                     70.0 %     70.00 s      70.00 s (rank 0)")) << text;
  EXPECT_TRUE(says(text, "input: decoding             30.0 %")) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), static_cast<std::ptrdiff_t>(time_parts) + 3) << text;
  EXPECT_TRUE(says(text, "waiting for samples to be decoded takes 30 %: give more --loader-threads")) << text;
}

TEST(TimeTable, SaysWhatWouldHelpMost) {
  EXPECT_TRUE(says(advice(times(TimePart::communication, 12)), "exposed communication takes 12 %"));
  EXPECT_TRUE(says(advice(times(TimePart::checkpoints, 20)), "--checkpoint-every"));
  EXPECT_TRUE(says(advice(times(TimePart::communication, 2)), "only faster kernels or more ranks"));
  auto slow = times(TimePart::imbalance, 12);
  slow.parts[static_cast<std::size_t>(TimePart::compute)] = {83.6, 80, 94.4, 0, 3, "node7"};
  EXPECT_TRUE(says(advice(slow), "rank 3 (node7) computes 18 % longer than the others: look at its node"))
      << advice(slow);
  auto starved = times(TimePart::imbalance, 12);
  starved.parts[static_cast<std::size_t>(TimePart::reading)] = {4, 0, 16, 0, 2, "node5"};
  EXPECT_TRUE(says(advice(starved), "rank 2 (node5) waits longest for samples to be read: give more --reader-threads"))
      << advice(starved);
  EXPECT_TRUE(says(advice(times(TimePart::imbalance, 12)), "no rank is always the slow one"));
  EXPECT_TRUE(says(advice(times(TimePart::reading, 12)), "samples to be read takes 12 %: give more --reader-threads"));
  EXPECT_TRUE(says(advice(times(TimePart::received, 12)), "samples of other ranks takes 12 %"));
  auto queued = times(TimePart::decoding, 12);
  queued.host_runs_ahead = true;
  EXPECT_TRUE(says(advice(queued), "compute includes waiting for other ranks"));
}

}  // namespace
}  // namespace keelson::app
