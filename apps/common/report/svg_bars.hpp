#pragma once

#include <limits>
#include <string>
#include <vector>

namespace keelson::app::plot {

/// One bar, with its label on a line of its own above it, so that labels never meet.
struct Bar {
  std::string label;                                        ///< cut where it is too long; the pointer shows all of it
  double value = std::numeric_limits<double>::quiet_NaN();  ///< not finite: no bar, `text` alone
  std::string text;                                         ///< behind the bar: "12.3", or why there is none
  int colour = 0;                                           ///< --s0 ... --s5
  bool hatched = false;                                     ///< grey, hatched, with a dashed edge: of other origin
};

/// Horizontal bars from zero.
struct BarChart {
  std::string title, axis;  ///< axis: "samples/s"
  std::vector<Bar> bars;    ///< from the top
  int width = 540;          ///< pixels
};

/// As svg() of Plot: colours come from the page's CSS variables.
std::string svg(const BarChart& chart);

}  // namespace keelson::app::plot
