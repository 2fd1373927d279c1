#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace keelson::climate {

/// The value below which `percent` of the values lie, interpolated linearly between the two nearest ones, as
/// numpy.percentile does. `values` must not be empty.
inline double percentile(std::vector<float> values, double percent) {
  const double place = percent / 100 * (static_cast<double>(values.size()) - 1), below = std::floor(place);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(below);
  std::nth_element(values.begin(), at, values.end());
  const double low = *at, share = place - below;
  return share == 0 ? low : low + share * (*std::min_element(at + 1, values.end()) - low);
}

}  // namespace keelson::climate
