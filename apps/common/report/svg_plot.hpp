#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

/// Small plots as SVG text for HTML pages. Colours come from the page's CSS variables --s0 ... --s5, --ink, --muted,
/// --grid, so that the same plot suits light and dark pages.
namespace keelson::app::plot {

struct Series {
  enum class Mark { line, points, both };
  std::string name;  ///< legend; empty: none
  std::vector<double> x, y;
  Mark mark = Mark::line;
  int colour = 0;      ///< --s0 ... --s5
  bool faint = false;  ///< for noise behind a mean
  bool dashed = false;
  // One entry per point; each list is empty or as long as x.
  std::vector<std::string> titles = {};  ///< tooltip of a point; empty: the coordinates
  std::vector<std::string> labels = {};  ///< written beside a point if there is room; "": no label
  std::vector<double> radii = {};        ///< pixels
};

struct Axis {
  std::string label;
  bool log = false;  ///< falls back to linear if a value is not positive
  std::optional<double> min = {}, max = {};
};

struct Plot {
  std::string title;
  Axis x, y;
  std::vector<Series> series = {};
  int width = 540, height = 300;
  bool diagonal = false;  ///< same range on both axes and the line y = x: predicted against true
};

/// Values that are not finite are left out. If no value is left, the plot says so.
std::string svg(const Plot& plot);

/// A horizontal bar of shares with its legend.
std::string stacked_bar(const std::vector<std::pair<std::string, double>>& parts, const std::string& unit);

/// The series as means over at most `most` parts of equal length.
Series thinned(const Series& s, std::size_t most);

/// Escapes &, <, > and quotes.
std::string escape(const std::string& text);

/// Round numbers inside [low, high], about `count` of them.
std::vector<double> ticks(double low, double high, int count);

}  // namespace keelson::app::plot
