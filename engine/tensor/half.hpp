#pragma once

#include <bit>

#include "engine/tensor/dtype.hpp"

/// Conversion between f32 and the 16-bit types: rounds to the nearest number, ties to even; overflow gives infinity, a
/// NaN stays a (quiet) NaN, subnormal numbers are kept. Functions without state, for host and device code.
namespace keelson {

/// Exact.
constexpr float to_float(float x) { return x; }

/// Exact.
constexpr float to_float(bf16 x) { return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16); }

/// Rounded to the nearest.
constexpr bf16 to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>(bits >> 16 | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

/// Exact.
constexpr float to_float(f16 x) {
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000u) << 16, rest = x.bits & 0x7fffu;
  // After scaling by 2^112, the exponents of both formats agree, also for subnormal numbers.
  const float scaled = std::bit_cast<float>(rest << 13) * 0x1p112f;
  const std::uint32_t bits =
      rest >= 0x7c00u ? 0x7f800000u | (rest & 0x3ffu) << 13 : std::bit_cast<std::uint32_t>(scaled);
  return std::bit_cast<float>(sign | bits);
}

/// Rounded to the nearest.
constexpr f16 to_f16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
  const auto made = [&](std::uint32_t value) { return f16{static_cast<std::uint16_t>(sign | value)}; };
  if (rest > 0x7f800000u) return made(0x7e00u);
  if (rest >= 0x477ff000u) return made(0x7c00u);  // 65520: half way to 65536, which f16 does not have
  if (rest < 0x38800000u)                         // subnormal: adding 0.5 rounds to the right number of bits
    return made(std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest) + 0.5f) - 0x3f000000u);
  return made((rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13);
}

/// Rounded to the nearest value of T: float, bf16 or f16.
template <class T>
constexpr T from_float(float x);
/// Exact.
template <>
constexpr float from_float<float>(float x) {
  return x;
}
/// As to_bf16().
template <>
constexpr bf16 from_float<bf16>(float x) {
  return to_bf16(x);
}
/// As to_f16().
template <>
constexpr f16 from_float<f16>(float x) {
  return to_f16(x);
}

}  // namespace keelson
