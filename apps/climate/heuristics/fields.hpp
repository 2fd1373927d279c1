#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "apps/climate/weather/channels.hpp"
#include "apps/climate/weather/grid.hpp"
#include "apps/climate/weather/physics.hpp"

namespace keelson::climate {

/// A view of a snapshot's 16 channels.
struct SnapshotFields {
  Grid grid;
  std::span<const float> data;  ///< (rows, columns, 16), SI units

  /// The value at a point. `column` is periodic.
  double at(int row, int column, Channel channel) const {
    return data[static_cast<std::size_t>(index(row, column)) * kChannels + channel];
  }
  /// Number of the point, row by row. `column` is periodic.
  std::int64_t index(int row, int column) const {
    const int n = grid.columns;
    return std::int64_t{row} * n + ((column % n) + n) % n;
  }
};

/// Angle between two places (radians), all given in radians.
inline double great_circle(double latitude0, double longitude0, double latitude1, double longitude1) {
  const double a = square(std::sin((latitude1 - latitude0) / 2)) +
                   std::cos(latitude0) * std::cos(latitude1) * square(std::sin((longitude1 - longitude0) / 2));
  return 2 * std::asin(std::min(1.0, std::sqrt(a)));
}

}  // namespace keelson::climate
