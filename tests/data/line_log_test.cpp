#include "engine/data/files/line_log.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "engine/base/error.hpp"
#include "tests/support/data_files.hpp"

namespace keelson {
namespace {

std::vector<std::string> lines_of(LineLog& log) {
  std::vector<std::string> all;
  log.read_new([&](const std::string& line) { all.push_back(line); });
  return all;
}

void ignore(const std::string&) {}

std::string line_of(int i) { return "{\"number\":" + std::to_string(i) + "}"; }

TEST(LineLog, KeepsTheOrder) {
  const testing::TemporaryFolder folder;
  LineLog log(folder / "log.jsonl", true, {}), reader(folder / "log.jsonl", false, {});
  for (int i = 0; i < 3; ++i) log.append(line_of(i), ignore);
  EXPECT_EQ(lines_of(reader), (std::vector<std::string>{line_of(0), line_of(1), line_of(2)}));
  log.append(line_of(3), ignore);
  EXPECT_EQ(lines_of(reader), std::vector<std::string>{line_of(3)});
  EXPECT_EQ(lines_of(log), std::vector<std::string>{});
  EXPECT_THROW(LineLog(folder / "none", false, {}), InputError);
}

/// A process that was killed while it wrote, in the middle and at the end of the file.
TEST(LineLog, LeavesOutTornLines) {
  const testing::TemporaryFolder folder;
  const auto path = folder / "log.jsonl";
  {
    LineLog log(path, true, {});
    for (int i = 0; i < 3; ++i) log.append(line_of(i), ignore);
  }
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  const std::string whole = content.str();
  for (std::size_t cut = 1; cut < whole.size(); ++cut) {
    std::ofstream(path) << whole.substr(0, cut);
    LineLog log(path, true, {});
    const auto before = lines_of(log).size();
    log.append(line_of(7), ignore);
    LineLog again(path, false, {});
    const auto found = lines_of(again);
    const bool completes = whole[cut] == '\n';  // only the newline was missing
    ASSERT_EQ(found.size(), before + 1 + (completes ? 1 : 0)) << cut;
    EXPECT_EQ(found.back(), line_of(7));
    const bool torn = whole[cut - 1] != '\n' && !completes;
    EXPECT_EQ(again.broken_lines(), torn ? 1 : 0) << cut;
    EXPECT_EQ(again.first_broken(), torn ? static_cast<std::int64_t>(before) + 1 : 0);
  }
}

TEST(LineLog, FindsChangedBytes) {
  const testing::TemporaryFolder folder;
  const auto path = folder / "log.jsonl";
  LineLog(path, true, {}).append(line_of(12), ignore);
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  for (std::size_t i = 0; i + 1 < content.str().size(); ++i) {
    std::string changed = content.str();
    changed[i] = changed[i] == '5' ? '6' : '5';
    std::ofstream(path) << changed;
    LineLog log(path, false, {});
    EXPECT_EQ(lines_of(log).size(), 0u) << changed;
    EXPECT_EQ(log.broken_lines(), 1);
  }
}

/// Several writers at the same time: each line is there once, and everyone reads the same order.
TEST(LineLog, HasManyWriters) {
  const testing::TemporaryFolder folder;
  const auto path = folder / "log.jsonl";
  constexpr int writers = 4, lines = 50;
  std::vector<std::vector<std::string>> read(writers);
  std::vector<std::thread> threads;
  for (int w = 0; w < writers; ++w)
    threads.emplace_back([&, w] {
      LineLog log(path, true, {});
      for (int i = 0; i < lines; ++i)
        log.append(line_of(w * lines + i),
                   [&](const std::string& line) { read[static_cast<std::size_t>(w)].push_back(line); });
    });
  for (auto& t : threads) t.join();
  LineLog log(path, false, {});
  auto all = lines_of(log);
  for (auto& mine : read) {
    ASSERT_LE(mine.size(), all.size());
    EXPECT_TRUE(std::equal(mine.begin(), mine.end(), all.begin()));
  }
  EXPECT_EQ(log.broken_lines(), 0);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all.size(), static_cast<std::size_t>(writers * lines));
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

}  // namespace
}  // namespace keelson
