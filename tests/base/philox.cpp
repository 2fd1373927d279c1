#include "engine/base/philox.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace keelson {
namespace {

using philox::Block;

// Known answers of the authors' library, Random123 1.14, tests/kat_vectors: "philox4x32 10 <counter words> <key words>
// <result words>".
struct KnownAnswer {
  Block counter;
  std::uint32_t key0, key1;
  Block result;
};

constexpr KnownAnswer known_answers[] = {
    {{0, 0, 0, 0}, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     0xffffffff,
     0xffffffff,
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     0xa4093822,
     0x299f31d0,
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

constexpr Block answer(const KnownAnswer& k) {
  const auto join = [](std::uint32_t high, std::uint32_t low) { return std::uint64_t{high} << 32 | low; };
  return philox::block(join(k.key1, k.key0), join(k.counter[3], k.counter[2]), join(k.counter[1], k.counter[0]));
}

static_assert(answer(known_answers[2]) == known_answers[2].result, "usable in constant expressions");

TEST(Philox, KnownAnswers) {
  for (const auto& k : known_answers) EXPECT_EQ(answer(k), k.result);
}

TEST(Philox, FourNeighboursShareABlock) {
  const philox::Key key{42, 3, 5};
  const Block second = philox::block(42ull ^ 3ull << 32, 5, 1);
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(philox::bits(key, 4 + i), second[i]);
}

TEST(Philox, EveryPartOfTheKeyMatters) {
  const auto sample = [](const philox::Key& k) {
    std::vector<std::uint32_t> bits;
    for (std::uint64_t i = 0; i < 8; ++i) bits.push_back(philox::bits(k, i));
    return bits;
  };
  const philox::Key keys[] = {
      {1, 2, 3}, {2, 2, 3}, {1, 3, 3}, {1, 2, 4}, {1 + (1ull << 40), 2, 3}, {1, 2, 3 + (1ull << 40)}};
  for (const auto& a : keys)
    for (const auto& b : keys)
      if (&a != &b) {
        EXPECT_NE(sample(a), sample(b));
      }
  EXPECT_NE(philox::bits(keys[0], 0), philox::bits(keys[0], 1ull << 40));
}

TEST(Philox, UniformIsExactIn24Bits) {
  for (std::uint64_t i = 0; i < 10000; ++i) {
    const float u = philox::uniform({9, 1, 0}, i);
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    ASSERT_EQ(u * 16777216.0f, std::floor(u * 16777216.0f));
  }
}

// Mean 1/2, variance 1/12, no correlation between neighbours or streams, 64 even bins: each within 5 standard errors.
TEST(Philox, UniformStatistics) {
  constexpr int n = 1 << 18, bins = 64;
  double sum = 0, squares = 0, lag = 0, cross = 0;
  std::vector<int> histogram(bins);
  double previous = 0;
  for (int i = 0; i < n; ++i) {
    const double u = philox::uniform({2026, 7, 11}, i) - 0.5, v = philox::uniform({2026, 8, 11}, i) - 0.5;
    sum += u;
    squares += u * u;
    lag += u * previous;
    cross += u * v;
    previous = u;
    ++histogram[static_cast<int>((u + 0.5) * bins)];
  }
  const double root = std::sqrt(n);
  EXPECT_NEAR(sum / n, 0, 5 * std::sqrt(1.0 / 12) / root);
  EXPECT_NEAR(squares / n, 1.0 / 12, 5 * std::sqrt(1.0 / 180) / root);
  EXPECT_NEAR(lag / n, 0, 5 * (1.0 / 12) / root);
  EXPECT_NEAR(cross / n, 0, 5 * (1.0 / 12) / root);
  double chi2 = 0;
  const double expected = static_cast<double>(n) / bins;
  for (int count : histogram) chi2 += std::pow(count - expected, 2) / expected;
  EXPECT_NEAR(chi2, bins - 1, 5 * std::sqrt(2.0 * (bins - 1)));
}

TEST(Philox, BelowIsUniformAndInRange) {
  const philox::Key key{3, philox::stream_of("below"), 1};
  int seen[7] = {};
  for (std::uint64_t i = 0; i < 70000; ++i) {
    const auto drawn = philox::below(key, i, 7);
    ASSERT_LT(drawn, 7u);
    ++seen[drawn];
  }
  for (const int count : seen) EXPECT_NEAR(count, 10000, 5 * 93);  // standard deviation sqrt(70000 * 6 / 49)
  EXPECT_EQ(philox::below(key, 5, 1), 0u);
}

// FNV-1a's published test vectors (Fowler, Noll, Vo): streams must never change, or old runs could not be repeated.
TEST(Philox, StreamOfIsFnv1a) {
  EXPECT_EQ(philox::stream_of(""), 0x811c9dc5u);
  EXPECT_EQ(philox::stream_of("a"), 0xe40c292cu);
  EXPECT_EQ(philox::stream_of("foobar"), 0xbf9cf968u);
}

}  // namespace
}  // namespace keelson
