#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/climate/heuristics/fields.hpp"

namespace keelson::climate {

/// The classes of a snapshot's points, to be drawn as outlines.
struct Outline {
  std::string name;   ///< "truth"
  std::string style;  ///< class of the page's style sheet (map_style)
  std::vector<std::int32_t> labels;
};

/// Colours of outlines, for the page's style sheet: the styles "truth", "heuristics" and "prediction".
extern const char* const map_style;

/// The line around the points of a class, as path data of SVG; a point is 1 wide and 1 high, and north is at the top. A
/// straight line is one piece.
std::string outline_path(std::span<const std::int32_t> labels, int rows, int columns, int of_class);

/// Cards with maps of column water, wind at 850 hPa and pressure at sea level, as HTML with everything inside. Maps are
/// at most 576 pixels wide: pixels are means over points. Cyclones have thick lines, rivers thin ones.
std::string draw_snapshot(const SnapshotFields& fields, const std::vector<Outline>& outlines);

/// The meaning of the lines, as HTML.
std::string outline_key(const std::vector<Outline>& outlines);

}  // namespace keelson::climate
