#include "engine/base/exact_sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace keelson::testing {
namespace {

double sum_of(const std::vector<double>& terms) {
  ExactSum s;
  for (double t : terms) s.add(t);
  return s.value();
}

TEST(ExactSum, LosesNothing) {
  constexpr double largest = std::numeric_limits<double>::max(), smallest = std::numeric_limits<double>::denorm_min();
  EXPECT_EQ(sum_of({}), 0);
  EXPECT_EQ(sum_of({1e300, 1, -1e300}), 1);
  EXPECT_EQ(sum_of({largest, largest, -largest, smallest, -largest}), smallest);
  EXPECT_EQ(sum_of({-1, -smallest, 1}), -smallest);
  EXPECT_EQ(sum_of({0.1, 0.2, 0.3, -0.1, -0.2, -0.3}), 0);
  EXPECT_EQ(sum_of({-0x1p-1022, 0x1p-1073}), -0x1p-1022 + 0x1p-1073);
  for (double one : {0.1, -3e-310, 1.7e308, -1.0, 4294967296.0, 0x1.fffffffffffffp+31, smallest, -largest})
    EXPECT_EQ(sum_of({one}), one);
}

/// In whole numbers the sum is known.
TEST(ExactSum, IsThatOfWholeNumbers) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20; ++round) {
    std::int64_t expected = 0;
    ExactSum s;
    for (int i = 0; i < 1000; ++i) {
      const auto n = static_cast<std::int64_t>(random() >> 22) - (std::int64_t{1} << 41);
      expected += n;
      s.add(static_cast<double>(n));
    }
    EXPECT_EQ(s.value(), static_cast<double>(expected));
  }
}

TEST(ExactSum, DoesNotDependOnTheOrder) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> fraction(-1, 1);
  std::vector<double> terms(1000);
  for (auto& t : terms) t = std::ldexp(fraction(random), static_cast<int>(random() % 80) - 40);
  const double first = sum_of(terms);
  long double wide = 0;
  for (double t : terms) wide += t;
  EXPECT_NEAR(first, static_cast<double>(wide), 1e-6);
  double plain = 0;
  for (double t : terms) plain += t;
  bool differs = false;
  for (int round = 0; round < 10; ++round) {
    std::shuffle(terms.begin(), terms.end(), random);
    EXPECT_EQ(sum_of(terms), first);
    double again = 0;
    for (double t : terms) again += t;
    differs = differs || again != plain;
  }
  EXPECT_TRUE(differs) << "plain sums of these terms should depend on their order";
}

TEST(ExactSum, HasTheSpecialValuesOfAPlainSum) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(sum_of({1, inf, -1e308}), inf);
  EXPECT_EQ(sum_of({-inf, 5}), -inf);
  EXPECT_TRUE(std::isnan(sum_of({inf, 1, -inf})));
  EXPECT_TRUE(std::isnan(sum_of({NAN, 1})));
  EXPECT_EQ(sum_of({1.7e308, 1.7e308}), inf);
}

}  // namespace
}  // namespace keelson::testing
