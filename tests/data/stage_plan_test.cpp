#include "engine/data/stage/stage_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

namespace keelson {
namespace {

/// files_of() and has() say the same, and owners have their files.
void expect_consistent(const StagePlan& plan, std::int64_t files, int places) {
  std::set<std::int64_t> kept;
  for (int p = 0; p < places; ++p) {
    const auto list = plan.files_of(p);
    const std::set<std::int64_t> mine(list.begin(), list.end());
    EXPECT_EQ(mine.size(), list.size()) << "a file twice";
    for (std::int64_t f = 0; f < files; ++f) EXPECT_EQ(plan.has(p, f), mine.contains(f)) << p << ", " << f;
    kept.insert(mine.begin(), mine.end());
  }
  EXPECT_EQ(std::ssize(kept), plan.kept());
  for (std::int64_t f = 0; f < files; ++f) {
    const int owner = plan.owner(f);
    EXPECT_EQ(owner >= 0, kept.contains(f));
    EXPECT_TRUE(owner < 0 || plan.has(owner, f));
  }
}

TEST(StagePlan, GivesEachPlaceItsFiles) {
  for (const std::int64_t files : {1, 2, 7, 40})
    for (const int places : {1, 2, 3, 4, 9}) {
      const StagePlan full(files, StageMode::full, 0, 5, places), shard(files, StageMode::shard, 0, 5, places);
      expect_consistent(full, files, places);
      expect_consistent(shard, files, places);
      std::int64_t shards = 0;
      for (int p = 0; p < places; ++p) {
        EXPECT_EQ(std::ssize(full.files_of(p)), files);
        const auto size = std::ssize(shard.files_of(p));
        shards += size;
        EXPECT_GE(size, files / places);
        EXPECT_LE(size, (files + places - 1) / places);
      }
      EXPECT_EQ(shards, files);
      for (const std::int64_t count : {std::int64_t{1}, (files + 1) / 2, files}) {
        const StagePlan sample(files, StageMode::sample, count, 5, places);
        expect_consistent(sample, files, places);
        EXPECT_EQ(sample.kept(), std::min(files, count * places));
        for (int p = 0; p < places; ++p) EXPECT_EQ(std::ssize(sample.files_of(p)), count);
      }
    }
}

TEST(StagePlan, DrawsAtRandom) {
  constexpr int places = 4;
  constexpr std::int64_t files = 4000, count = 2000;
  const StagePlan plan(files, StageMode::sample, count, 1, places), other(files, StageMode::sample, count, 2, places);
  EXPECT_NE(plan.files_of(0), other.files_of(0));
  // Each file is on its owner, and on each of the others with the probability (2000 - 1000) / 3000.
  std::int64_t pairs = 0, low = 0;
  for (std::int64_t f = 0; f < files; ++f) pairs += plan.has(0, f) && plan.has(1, f) ? 1 : 0;
  for (const auto f : plan.files_of(0)) low += f < files / 2 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(pairs), 2 * 1000 / 3.0 + 2000 / 9.0, 100);
  EXPECT_NEAR(static_cast<double>(low), 1000, 100);
}

TEST(StagePlan, GivesEachFileALane) {
  const StagePlan plan(100, StageMode::full, 0, 3, 4);
  std::vector<int> files(2);
  for (std::int64_t f = 0; f < 100; ++f) ++files.at(static_cast<std::size_t>(plan.lane(f, 2)));
  EXPECT_EQ(files, (std::vector<int>{52, 48}));
}

}  // namespace
}  // namespace keelson
