#include "apps/common/report/reliability.hpp"

#include <fmt/format.h>

#include <utility>

namespace keelson::app::plot {

Series reliability_line(const ensemble::Reliability& r, const std::string& name, int colour) {
  Series line{name, {}, {}, Series::Mark::both, colour};
  for (const auto& bin : r.bins()) {
    if (bin.count == 0) continue;
    line.x.push_back(bin.confidence);
    line.y.push_back(bin.accuracy);
    line.titles.push_back(
        fmt::format("{} predictions: confidence {:.3f}, right {:.3f}", bin.count, bin.confidence, bin.accuracy));
  }
  return line;
}

std::string reliability_diagram(std::vector<Series> lines) {
  Plot p{"Reliability", {"confidence"}, {"part that is right"}, std::move(lines)};
  p.diagonal = true;
  p.width = p.height = 340;
  return svg(p) +
         "<p class='note'>A calibrated network is on the diagonal: of the predictions with a confidence of 0.8, 80 % "
         "are right. Below it, the network is too sure.</p>";
}

}  // namespace keelson::app::plot
