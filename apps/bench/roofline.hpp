#pragma once

#include <string>
#include <vector>

#include "engine/execute/executor.hpp"

namespace keelson::bench {

struct RooflineInput {
  std::string title;     ///< "mlperf 128^3, batch 1 a rank"
  std::string subtitle;  ///< the machine
  DevicePeaks peaks;
  std::vector<PlanRow> rows;  ///< with measured times
  double seconds_per_step = 0, samples_per_second = 0;
  std::string what = "step";  ///< name of what the rows make up: "step" or "forward pass"
};

/// Only the plot: SVG for a page with the style sheet of reports.
std::string roofline_plot(const RooflineInput& input, const std::string& title, int width, int height);

/// One HTML page with everything inside, light and dark: the calls of a step on the machine's roofline, then tables of
/// the calls, sorted by time, longest first.
std::string render_roofline(const RooflineInput& input);

}  // namespace keelson::bench
