#include "engine/tensor/half.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace keelson {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

/// The number that `bits` stand for, by the definition of a binary format with `mantissa` bits after the point.
double value(std::uint32_t bits, int exponent_bits, int mantissa) {
  const double sign = bits >> 15 ? -1 : 1;
  const int most = (1 << exponent_bits) - 1, bias = most / 2;
  const int exponent = static_cast<int>(bits >> mantissa) & most,
            fraction = static_cast<int>(bits) & ((1 << mantissa) - 1);
  if (exponent == most) return fraction ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - mantissa);
  return sign * std::ldexp((1 << mantissa) + fraction, exponent - bias - mantissa);
}

template <class T>
struct Format;
template <>
struct Format<f16> {
  static constexpr int exponent = 5, mantissa = 10;
};
template <>
struct Format<bf16> {
  static constexpr int exponent = 8, mantissa = 7;
};

template <class T>
class HalfTest : public ::testing::Test {
 protected:
  static double value_of(std::uint32_t bits) { return value(bits, Format<T>::exponent, Format<T>::mantissa); }
  static T made(std::uint32_t bits) { return T{static_cast<std::uint16_t>(bits)}; }
  static std::uint32_t nan_bits() { return ((1u << Format<T>::exponent) - 1) << Format<T>::mantissa; }
};
using Types = ::testing::Types<bf16, f16>;
TYPED_TEST_SUITE(HalfTest, Types);

TYPED_TEST(HalfTest, EveryNumberComesBack) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const double want = this->value_of(bits);
    const float got = to_float(this->made(bits));
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << bits;
      EXPECT_TRUE(std::isnan(to_float(from_float<TypeParam>(got)))) << bits;
      continue;
    }
    EXPECT_EQ(static_cast<double>(got), want) << bits;
    EXPECT_EQ(from_float<TypeParam>(got).bits, bits);  // the sign of zero, too
  }
}

/// Between two neighbours: the nearer one, and half way the one whose last bit is 0.
TYPED_TEST(HalfTest, RoundsToTheNearestOrEven) {
  for (std::uint32_t sign : {0u, 0x8000u})
    for (std::uint32_t bits = 0; bits + 1 < this->nan_bits(); ++bits) {
      const auto below = static_cast<float>(this->value_of(sign | bits)),
                 above = static_cast<float>(this->value_of(sign | (bits + 1)));
      const float half = below / 2 + above / 2;  // exact: f32 holds more bits, and neither overflows
      const std::uint32_t even = bits % 2 ? bits + 1 : bits;
      EXPECT_EQ(from_float<TypeParam>(half).bits, sign | even) << bits;
      EXPECT_EQ(from_float<TypeParam>(std::nextafter(half, below)).bits, sign | bits) << bits;
      EXPECT_EQ(from_float<TypeParam>(std::nextafter(half, above)).bits, sign | (bits + 1)) << bits;
    }
}

TYPED_TEST(HalfTest, OverflowsToInfinity) {
  const std::uint32_t infinity = this->nan_bits();
  const auto most = static_cast<float>(this->value_of(infinity - 1));
  const float step = most - static_cast<float>(this->value_of(infinity - 2));
  EXPECT_EQ(from_float<TypeParam>(inf).bits, infinity);
  EXPECT_EQ(from_float<TypeParam>(-inf).bits, 0x8000u | infinity);
  EXPECT_EQ(from_float<TypeParam>(std::numeric_limits<float>::max()).bits, infinity);
  EXPECT_EQ(from_float<TypeParam>(std::nextafter(most + step / 2, 0.0f)).bits, infinity - 1);
  EXPECT_EQ(from_float<TypeParam>(most + step / 2).bits, infinity);
}

TYPED_TEST(HalfTest, VanishesToZeroWithItsSign) {
  const float least = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(from_float<TypeParam>(least).bits, 0u);
  EXPECT_EQ(from_float<TypeParam>(-least).bits, 0x8000u);
}

TYPED_TEST(HalfTest, NanStaysNanAndQuiet) {
  for (const std::uint32_t bits : {0x7fc00000u, 0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu}) {
    const auto x = from_float<TypeParam>(std::bit_cast<float>(bits));
    EXPECT_TRUE(std::isnan(to_float(x))) << bits;
    EXPECT_TRUE(x.bits >> (Format<TypeParam>::mantissa - 1) & 1u) << bits;
  }
}

static_assert(to_float(to_bf16(1.0f)) == 1.0f && to_float(to_f16(1.0f)) == 1.0f, "usable at compile time");
static_assert(from_float<float>(0.1f) == 0.1f);

}  // namespace
}  // namespace keelson
