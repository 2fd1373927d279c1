#include "engine/data/epoch_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

namespace keelson::testing {
namespace {

std::vector<std::int64_t> samples_of(const EpochOrder& order) {
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < order.size(); ++i) samples.push_back(order[i]);
  return samples;
}

TEST(EpochOrder, IsASeededPermutation) {
  for (const std::int64_t size : {0, 1, 2, 3, 15, 16, 17, 1000, 1024, 1025}) {
    const EpochOrder order(size, 5, 0);
    auto sorted = samples_of(order);
    std::sort(sorted.begin(), sorted.end());
    std::vector<std::int64_t> in_order(static_cast<std::size_t>(size));
    std::iota(in_order.begin(), in_order.end(), 0);
    EXPECT_EQ(sorted, in_order) << size;
    for (std::int64_t i = 0; i < size; ++i) EXPECT_EQ(order.position_of(order[i]), i) << size;
  }
  const auto a = samples_of(EpochOrder(1000, 5, 0));
  EXPECT_EQ(a, samples_of(EpochOrder(1000, 5, 0)));
  EXPECT_NE(a, samples_of(EpochOrder(1000, 5, 1)));
  EXPECT_NE(a, samples_of(EpochOrder(1000, 6, 0)));
}

/// All 24 orders of 4 samples, 24000 epochs: 1000 each, standard deviation 31.
TEST(EpochOrder, TakesAllOrdersEquallyOften) {
  std::map<std::vector<std::int64_t>, int> seen;
  for (std::int64_t epoch = 0; epoch < 24000; ++epoch) ++seen[samples_of(EpochOrder(4, 3, epoch))];
  EXPECT_EQ(seen.size(), 24u);
  for (const auto& [order, count] : seen) EXPECT_NEAR(count, 1000, 5 * 31) << ::testing::PrintToString(order);
}

/// Neighbours, and samples at a distance, come in any order: with 16, 20 and 64 samples, of every pair each is first in
/// half of the epochs, and follows the other directly in one of `size` epochs. 5 standard deviations, some 4000 pairs.
TEST(EpochOrder, MixesPairs) {
  constexpr int epochs = 6400;
  for (const std::int64_t size : {16, 20, 64}) {
    const auto n = static_cast<std::size_t>(size);
    std::vector<int> first(n * n), follows(n * n);
    for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
      const EpochOrder order(size, 11, epoch);
      std::vector<std::int64_t> at(n);
      for (std::int64_t i = 0; i < size; ++i) at[static_cast<std::size_t>(order[i])] = i;
      for (std::size_t a = 0; a < n; ++a)
        for (std::size_t b = 0; b < n; ++b) {
          first[a * n + b] += at[a] < at[b];
          follows[a * n + b] += at[a] + 1 == at[b];
        }
    }
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = 0; b < n; ++b) {
        if (a == b) continue;
        EXPECT_NEAR(first[a * n + b], 0.5 * epochs, 5 * 40) << size << ": " << a << " before " << b;
        const double expected = epochs / static_cast<double>(size);
        EXPECT_NEAR(follows[a * n + b], expected, 5.5 * std::sqrt(expected)) << size << ": " << b << " behind " << a;
      }
  }
}

TEST(EpochOrder, NeedsNoListOfTheSamples) {
  const std::int64_t size = std::int64_t{1} << 48;
  const EpochOrder order(size - 5, 1, 2);
  for (const std::int64_t i : {std::int64_t{0}, size / 3, size - 6}) {
    EXPECT_LT(order[i], size - 5);
    EXPECT_EQ(order.position_of(order[i]), i);
  }
}

}  // namespace
}  // namespace keelson::testing
