#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <string_view>

#include "engine/tensor/dtype.hpp"
#include "tests/oracle/array.hpp"

namespace keelson::testing {

using oracle::Array;

/// |got - want| <= norm * max|want| + element * |want|. The norm part is for sums, whose rounding grows with their
/// largest term.
struct Tolerance {
  double norm = 0;
  double element = 0;
};

/// The table of tolerances. For the tests' sums of up to a few thousand terms, a correct kernel with f32 accumulation
/// (f64 for f64) stays well within them, and a wrong kernel does not.
constexpr Tolerance tolerance(DType t) {
  switch (t) {
    case DType::f64:
      return {1e-14, 1e-12};
    case DType::f32:
      return {3e-6, 1e-5};
    case DType::f16:
      return {1e-3, 2e-3};
    case DType::bf16:
      return {8e-3, 1.6e-2};
    case DType::s32:
    case DType::u8:
    case DType::u16:
      return {0, 0};
  }
  return {};
}

inline constexpr Tolerance exact{0, 0};
inline constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();

bool all_finite(const Array& a);

/// Passes if every element is within the tolerance, and is NaN exactly where NaN is wanted. Otherwise the message names
/// `what`, the worst element, both values, and the number of wrong elements.
::testing::AssertionResult close(const Array& got, const Array& want, std::string_view what,
                                 Tolerance t = tolerance(DType::f32));

}  // namespace keelson::testing
