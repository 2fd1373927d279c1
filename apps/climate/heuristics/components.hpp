#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace keelson::climate {

/// A connected component of points.
struct Component {
  std::vector<std::int64_t> points;  ///< row * columns + column
  int first_row = 0, last_row = 0;   ///< rows of the bounding box
  /// Columns of the bounding box. If components continue beyond the last column of the grid, last_column may be larger
  /// than that column, and first_column may be negative.
  int first_column = 0, last_column = 0;
};

/// Which neighbours touch a point: the four that share an edge with it, or the eight that share an edge or a corner.
enum class Neighbours : std::uint8_t { four, eight };

/// The connected components of the non-zero points of `mask` (rows, columns), in order of their first points. `wrap`:
/// the last column touches the first.
std::vector<Component> connected_components(std::span<const std::uint8_t> mask, int rows, int columns,
                                            Neighbours neighbours, bool wrap);

/// Keeps only the component with the most points; if several have as many, the first of them.
void keep_largest(std::vector<std::uint8_t>& mask, int rows, int columns, Neighbours neighbours);

}  // namespace keelson::climate
