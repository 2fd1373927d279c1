#include "apps/common/mlperf_log.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/train/support.hpp"

namespace keelson::app {
namespace {

using testing::content;
using testing::Folder;
using Clock = MlperfLog::Time::clock;

std::vector<std::int64_t> times_in(const std::filesystem::path& log) {
  std::vector<std::int64_t> times;
  std::istringstream lines(content(log));
  for (std::string line; std::getline(lines, line);)
    times.push_back(nlohmann::json::parse(line.substr(line.find('{'))).at("time_ms").get<std::int64_t>());
  return times;
}

// Where each time is computed from the wall clock anew, times near the end of a millisecond get now this number, now
// the next, and a record may have an earlier time than the record before it.
TEST(MlperfLog, ATimeHasOneNumberHoweverOftenItIsAsked) {
  const auto begin = Clock::now();
  auto before = begin, behind = begin + std::chrono::milliseconds(1);
  while (behind - before > std::chrono::nanoseconds(1)) {
    const auto middle = before + (behind - before) / 2;
    (mlperf_milliseconds(middle) == mlperf_milliseconds(begin) ? before : behind) = middle;
  }
  for (int i = -100; i <= 100; ++i) {
    const auto t = before + std::chrono::nanoseconds(i);
    const auto expected = mlperf_milliseconds(begin) + (i > 0 ? 1 : 0);
    int others = 0;
    for (int k = 0; k < 200; ++k) others += mlperf_milliseconds(t) != expected ? 1 : 0;
    EXPECT_EQ(others, 0) << i;
  }
}

TEST(MlperfLog, LaterTimesHaveNoSmallerNumbers) {
  const auto begin = Clock::now();
  const auto at = [&](int microseconds) {
    return mlperf_milliseconds(begin + std::chrono::microseconds(microseconds));
  };
  for (int i = 0; i < 5000; ++i) EXPECT_LE(at(i), at(i + 1)) << i;
  EXPECT_EQ(at(5000) - at(0), 5);
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch());
  EXPECT_NEAR(static_cast<double>(mlperf_milliseconds(Clock::now())), static_cast<double>(now.count()), 60'000);
}

// A rank that takes the log over may have a clock of its own.
TEST(MlperfLog, GoesOnFromTheLatestTimeInTheFile) {
  const Folder folder;
  const auto log = folder / "log";
  const std::int64_t ahead = mlperf_milliseconds(Clock::now()) + 3'600'000;
  std::ofstream(log) << ":::MLLOG {\"time_ms\": " << ahead << "}\n";
  MlperfLines lines(log.string(), false);
  lines.write(MlperfLines::Event::point_in_time, "a");
  lines.write(MlperfLines::Event::point_in_time, "b");
  EXPECT_EQ(times_in(log), (std::vector{ahead, ahead, ahead}));
  MlperfLines anew(log.string(), true);
  anew.write(MlperfLines::Event::point_in_time, "c");
  EXPECT_LT(times_in(log).at(0), ahead);
}

TEST(MlperfLog, RefusesAFileThatIsNotRegular) {
  const Folder folder;
  MlperfOptions o;
  o.file = folder.path().string();
  EXPECT_THROW(MlperfLog::check_place(o, true), InputError);
}

}  // namespace
}  // namespace keelson::app
