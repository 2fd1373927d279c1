#pragma once

#include <string>
#include <vector>

#include "apps/common/report/svg_plot.hpp"
#include "engine/ensemble/histogram.hpp"

namespace keelson::app::plot {

/// The accuracy of the predictions over their confidence. Empty bins have no point.
Series reliability_line(const ensemble::Reliability& r, const std::string& name, int colour);
/// A reliability diagram of such lines, with a note that explains the diagonal, as HTML.
std::string reliability_diagram(std::vector<Series> lines);

}  // namespace keelson::app::plot
