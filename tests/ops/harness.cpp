#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <set>
#include <vector>

#include "tests/support/allocations.hpp"
#include "tests/support/compare.hpp"

/// The judge's own tests: a comparison that could not fail would make all others worthless.
namespace keelson::testing {
namespace {

Array values(std::vector<double> v) { return {Shape{static_cast<std::int64_t>(v.size())}, std::move(v)}; }

TEST(Close, ToleratesRoundingOnly) {
  const Array want = values({1, -2, 1000});
  EXPECT_TRUE(close(values({1, -2, 1000}), want, "equal", exact));
  EXPECT_TRUE(close(values({1 + 1e-6, -2, 1000 + 1e-3}), want, "rounded"));
  EXPECT_FALSE(close(values({1, -2 + 1e-2, 1000}), want, "one wrong"));
  EXPECT_FALSE(close(values({1 + 1e-15, -2, 1000}), want, "a bit", exact));
  EXPECT_FALSE(close(values({0, 0, 0}), want, "nothing written"));
  EXPECT_FALSE(close(values({1, -2}), want, "another shape"));
}

TEST(Close, WantsNanExactlyWhereNanIs) {
  EXPECT_TRUE(close(values({nan, 1}), values({nan, 1}), "both"));
  EXPECT_FALSE(close(values({1, 1}), values({nan, 1}), "lost"));
  EXPECT_FALSE(close(values({nan, nan}), values({nan, 1}), "spread"));
  EXPECT_TRUE(close(values({inf, -inf}), values({inf, -inf}), "infinite"));
  EXPECT_FALSE(close(values({inf, inf}), values({inf, -inf}), "wrong sign"));
  EXPECT_FALSE(close(values({inf, 1e30}), values({1e30, 1e30}), "overflow"));
}

TEST(Close, NamesTheWorstElement) {
  const auto result = close(Array({2, 2}, {1, 2, 3.5, 5}), Array({2, 2}, {1, 2, 3, 4}), "case 7");
  const std::string text = result.message();
  for (const auto* part : {"case 7", "2 of 4", "[1,1]", "got 5", "expected 4"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(AllocationCounter, SeesThisThreadsHeap) {
  std::unique_ptr<std::vector<int>> kept;
  const auto used = allocations_of([&] { kept = std::make_unique<std::vector<int>>(1000); });
  EXPECT_GE(used.calls, 2);
  EXPECT_GE(used.bytes, 4000);
  EXPECT_EQ(allocations_of([&] { (*kept)[3] = 1; }).calls, 0);
}

TEST(RandomArrays, AreFunctionsOfTheirNames) {
  const auto a = oracle::random_uniform({50}, "a", 2, 3), b = oracle::random_uniform({50}, "b", 2, 3);
  EXPECT_EQ(a.data, oracle::random_uniform({50}, "a", 2, 3).data);
  EXPECT_NE(a.data, b.data);
  for (double v : a.data) {
    EXPECT_TRUE(v >= 2 && v < 3);
    EXPECT_EQ(v, static_cast<double>(static_cast<float>(v)));
  }
  const auto distinct = oracle::random_distinct({7, 9}, "d");
  EXPECT_EQ(std::set<double>(distinct.data.begin(), distinct.data.end()).size(), 63u);
  const auto small = oracle::random_integers({200}, "i", -1, 1);
  EXPECT_EQ(std::set<double>(small.data.begin(), small.data.end()), (std::set<double>{-1, 0, 1}));
}

}  // namespace
}  // namespace keelson::testing
