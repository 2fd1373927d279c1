#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace keelson::climate {

/// Points that belong together.
struct Component {
  std::vector<std::int64_t> points;  ///< row * columns + column
  int first_row = 0, last_row = 0;   ///< of the box around it
  /// Of the box around it; where components go on beyond the last column, last_column may be larger than that, and
  /// first_column negative.
  int first_column = 0, last_column = 0;
};

/// Which neighbours of a point touch it: those with which it has an edge in common, or also a corner.
enum class Neighbours : std::uint8_t { four, eight };

/// The connected components of what is not 0 in `mask` (rows, columns), in order of their first points. `wrap`: the
/// last column touches the first.
std::vector<Component> connected_components(std::span<const std::uint8_t> mask, int rows, int columns,
                                            Neighbours neighbours, bool wrap);

/// Leaves only the component with the most points, of equal ones the first.
void keep_largest(std::vector<std::uint8_t>& mask, int rows, int columns, Neighbours neighbours);

}  // namespace keelson::climate
