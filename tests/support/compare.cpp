#include "tests/support/compare.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace keelson::testing {

bool all_finite(const Array& a) {
  return std::all_of(a.data.begin(), a.data.end(), [](double v) { return std::isfinite(v); });
}

::testing::AssertionResult close(const Array& got, const Array& want, std::string_view what, Tolerance t) {
  if (got.shape != want.shape)
    return ::testing::AssertionFailure() << fmt::format("{}: shape {}, expected {}", what, to_string(got.shape),
                                                        to_string(want.shape));

  double norm = 0;
  for (double v : want.data)
    if (std::isfinite(v)) norm = std::max(norm, std::abs(v));

  std::int64_t wrong = 0, worst = 0;
  double worst_excess = -1;
  for (std::int64_t i = 0; i < want.elements(); ++i) {
    const double g = got[i], w = want[i];
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    double excess = std::numeric_limits<double>::infinity();
    if (std::isfinite(g) && std::isfinite(w)) {
      const double allowed = t.norm * norm + t.element * std::abs(w);
      const double error = std::abs(g - w);
      if (error <= allowed) continue;
      excess = allowed > 0 ? error / allowed : error / std::numeric_limits<double>::min();
    }
    ++wrong;
    if (excess > worst_excess) {
      worst_excess = excess;
      worst = i;
    }
  }
  if (wrong == 0) return ::testing::AssertionSuccess();
  const Shape at = oracle::indices_of(want.shape, worst);
  return ::testing::AssertionFailure() << fmt::format(
             "{}: {} of {} elements are wrong; worst at [{}]: got {:.9g}, expected {:.9g} ({:.3g} times the tolerance; "
             "largest |expected| "
             "{:.3g})",
             what, wrong, want.elements(), fmt::join(at.begin(), at.end(), ","), got[worst], want[worst], worst_excess,
             norm);
}

}  // namespace keelson::testing
