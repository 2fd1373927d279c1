#pragma once

#include <bit>

#include "backends/kokkos/common/kernel.hpp"

/// exp, tanh and erfc of float without branches and calls, so that the compiler vectorises loops with them. On GPUs
/// these are the device's own functions. Errors are relative; a NaN stays a NaN.
namespace keelson::kokkos {

/// Error up to 2e-7; 0 below -87.3, infinity above 88.8. Adding 1.5 * 2^23 rounds the exponent to an
/// integer in the last bits. A polynomial takes the rest, at most ln(2) / 2; its coefficients have the least maximal
/// error, 3e-9.
KOKKOS_FORCEINLINE_FUNCTION float fast_exp(float x) {
  if constexpr (!runs_on_host) return Kokkos::exp(x);
  constexpr float magic = 12582912.0f, log2_e = 1.44269504088896341f, ln2_high = 0.693359375f,
                  ln2_low = -2.12194440e-4f;
  const bool vanishes = x < -87.3f;
  x = x > 89.0f ? 89.0f : x;
  x = vanishes ? 0.0f : x;
  const float shifted = x * log2_e + magic, n = shifted - magic;
  const float r = x - n * ln2_high - n * ln2_low;
  float series = 0.00138145406f;
  series = series * r + 0.00836874545f;
  series = series * r + 0.041668389f;
  series = series * r + 0.166665211f;
  series = series * r + 0.49999994f;
  series = series * r + 1.0f;
  series = series * r + 1.0f;
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(magic) + 127;
  return vanishes ? 0.0f : series * std::bit_cast<float>(exponent << 23);
}

/// Error up to 4e-7; at most 1 in size. A quotient of polynomials of x^2, times x, with the least maximal error (2e-8)
/// of those of degree 4 over |x| < 8.98, where tanh rounds to 1.
KOKKOS_FORCEINLINE_FUNCTION float fast_tanh(float x) {
  if constexpr (!runs_on_host) return Kokkos::tanh(x);
  x = x > 8.98f ? 8.98f : x;
  x = x < -8.98f ? -8.98f : x;
  const float s = x * x;
  float above = 1.3390335e-8f;
  above = above * s + 2.06347031e-5f;
  above = above * s + 0.00349714165f;
  above = above * s + 0.133823335f;
  above = above * s + 1.0f;
  float below = 7.79111872e-7f;
  below = below * s + 0.000328817754f;
  below = below * s + 0.0258828904f;
  below = below * s + 0.4671565f;
  below = below * s + 1.0f;
  float y = x * above / below;
  y = y > 1.0f ? 1.0f : y;
  return y < -1.0f ? -1.0f : y;
}

/// Error up to 1e-6 for x < 4, and 5e-6 for x < 9 (the error of exp(-x^2)): t P(t) exp(-x^2) with t = 1 / (1 + x / 2)
/// for x >= 0. P is a Chebyshev approximation of erfc(x) exp(x^2) / t over 0 < t <= 1, with an error of 2e-7.
KOKKOS_FORCEINLINE_FUNCTION float fast_erfc(float x) {
  if constexpr (!runs_on_host) return Kokkos::erfc(x);
  const float a = x < 0 ? -x : x, t = 1 / (1 + 0.5f * a);
  float p = 0.0431954339f;
  p = p * t - 0.234733596f;
  p = p * t + 0.493694931f;
  p = p * t - 0.454973996f;
  p = p * t + 0.13217704f;
  p = p * t - 0.0592113584f;
  p = p * t + 0.0934624374f;
  p = p * t + 0.175315976f;
  p = p * t + 0.24688457f;
  p = p * t + 0.282093763f;
  p = p * t + 0.282094806f;
  const float y = t * p * fast_exp(-a * a);
  return x < 0 ? 2 - y : y;
}

}  // namespace keelson::kokkos
