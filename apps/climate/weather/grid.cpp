#include "apps/climate/weather/grid.hpp"

#include <cmath>

#include "apps/climate/weather/physics.hpp"
#include "engine/base/error.hpp"

namespace keelson::climate {
namespace {

constexpr int kLeastRows = 64, kLeastColumns = 96, kMost = 1 << 14;

}  // namespace

double Grid::latitude(int row) const { return (row / (rows - 1.0) - 0.5) * std::numbers::pi; }
double Grid::longitude(int column) const { return 2 * std::numbers::pi * column / columns; }

void check(const Grid& grid) {
  if (grid.rows < kLeastRows || grid.columns < kLeastColumns) {
    refuse(
        "grid of {} x {} points (latitudes x longitudes): expected at least {} x {}. Between coarser points, {:.0f} km "
        "apart and more, cyclones and rivers, which are 300 to 700 km wide, would be lost. Try --height 96 --width 144",
        grid.rows, grid.columns, kLeastRows, kLeastColumns, 2 * std::numbers::pi * kRadius / 1000 / kLeastColumns);
  }
  if (grid.rows > kMost || grid.columns > kMost)
    refuse("grid of {} x {} points: expected at most {} x {}", grid.rows, grid.columns, kMost, kMost);
}

LocalFrame local_frame(double latitude, double longitude) {
  const double sin_lat = std::sin(latitude), cos_lat = std::cos(latitude);
  const double sin_lon = std::sin(longitude), cos_lon = std::cos(longitude);
  return {{cos_lat * cos_lon, cos_lat * sin_lon, sin_lat},
          {-sin_lon, cos_lon, 0},
          {-sin_lat * cos_lon, -sin_lat * sin_lon, cos_lat}};
}

Vector unit(const Vector& v) {
  const double length = std::sqrt(dot(v, v));
  return length > 0 ? Vector{v[0] / length, v[1] / length, v[2] / length} : v;
}

}  // namespace keelson::climate
