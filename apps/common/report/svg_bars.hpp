#pragma once

#include <limits>
#include <string>
#include <vector>

namespace keelson::app::plot {

/// One bar. Its label is a line of its own above the bar, so that labels never overlap.
struct Bar {
  std::string label;                                        ///< cut if it is too long; a tooltip shows all of it
  double value = std::numeric_limits<double>::quiet_NaN();  ///< not finite: no bar, `text` alone
  std::string text;                                         ///< behind the bar: "12.3", or why there is none
  int colour = 0;                                           ///< --s0 ... --s5
  bool hatched = false;  ///< grey, hatched, with a dashed edge: a figure from another source
};

/// Horizontal bars from zero.
struct BarChart {
  std::string title, axis;  ///< axis: "samples/s"
  std::vector<Bar> bars;    ///< from top to bottom
  int width = 540;          ///< pixels
};

/// Colours come from the page's CSS variables, as for svg() of a Plot.
std::string svg(const BarChart& chart);

}  // namespace keelson::app::plot
