#include "backends/common/divider.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace keelson::testing {
namespace {

constexpr std::int64_t limit = std::int64_t{1} << 31;

/// Numbers around which a quotient by a wrong reciprocal would show first.
std::vector<std::int64_t> numbers(std::int64_t divisor, std::int64_t end) {
  std::vector<std::int64_t> all{0, 1, end / 2, end - 2, end - 1};
  for (const std::int64_t times :
       {std::int64_t{1}, std::int64_t{2}, end / divisor / 2, end / divisor - 1, end / divisor})
    for (const int beside : {-1, 0, 1}) all.push_back(times * divisor + beside);
  std::erase_if(all, [&](std::int64_t n) { return n < 0 || n >= end; });
  return all;
}

void check(std::int64_t divisor, std::int64_t end, bool multiplies) {
  const Divider d(divisor, end);
  EXPECT_EQ(d.multiplies(), multiplies) << divisor << " below " << end;
  for (const auto n : numbers(divisor, end)) {
    auto rest = n;
    ASSERT_EQ(d.quotient(n), n / divisor) << n << " / " << divisor;
    ASSERT_EQ(d.split(rest), n % divisor) << n << " % " << divisor;
    ASSERT_EQ(rest, n / divisor);
  }
}

TEST(Divider, DividesAllThatIsBelow31Bits) {
  for (std::int64_t divisor = 1; divisor < 5000; ++divisor) check(divisor, limit, true);
  for (int bit = 1; bit <= 31; ++bit)
    for (const int beside : {-1, 0, 1})
      if (const auto divisor = (std::int64_t{1} << bit) + beside; divisor <= limit) check(divisor, limit, true);
  for (std::int64_t i = 1; i < 20000; ++i) check(i * 104729 % (limit - 1) + 1, limit, true);
}

TEST(Divider, DividesEveryNumberOfASmallRange) {
  for (std::int64_t divisor = 1; divisor < 300; ++divisor) {
    const Divider d(divisor, 1000);
    for (std::int64_t n = 0; n < 1000; ++n) ASSERT_EQ(d.quotient(n), n / divisor) << n << " / " << divisor;
  }
}

TEST(Divider, TakesThe64BitDivisionForLargerNumbers) {
  for (const std::int64_t divisor : {std::int64_t{1}, std::int64_t{3}, std::int64_t{1} << 20, limit + 5})
    for (const std::int64_t end : {limit + 1, std::int64_t{1} << 33, std::int64_t{1} << 60}) check(divisor, end, false);
  check(limit + 1, 100, false);
}

}  // namespace
}  // namespace keelson::testing
