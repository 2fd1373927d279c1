#pragma once

#include <array>
#include <cstdint>

namespace keelson::climate {

/// Points of a snapshot: rows from the south pole to the north pole, both included, and columns from longitude 0
/// eastward. Columns are periodic: the last column is beside the first.
struct Grid {
  int rows = 768, columns = 1152;

  double latitude(int row) const;      ///< radians
  double longitude(int column) const;  ///< radians
  std::int64_t points() const { return std::int64_t{rows} * columns; }
};

/// Throws InputError for a grid that is too coarse to show rivers and cyclones, or too large.
void check(const Grid& grid);

using Vector = std::array<double, 3>;

/// A point of the unit sphere (`up`), and the directions east and north there.
struct LocalFrame {
  Vector up, east, north;
};

LocalFrame local_frame(double latitude, double longitude);

inline double dot(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

inline Vector cross(const Vector& a, const Vector& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

/// `v` with length 1; zero stays zero.
Vector unit(const Vector& v);

}  // namespace keelson::climate
