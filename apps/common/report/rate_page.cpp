#include "apps/common/report/rate_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/common/report/report_style.hpp"
#include "apps/common/report/svg_plot.hpp"

namespace keelson::app {
namespace {

using Mark = plot::Series::Mark;

plot::Plot rate_plot(const RateRange& range) {
  plot::Plot p{"Loss by learning rate", {"learning rate", true}, {"loss"}, {}};
  p.width = 900;
  p.height = 420;
  plot::Series each{"", {}, {}, Mark::line, 0, true}, smoothed{"smoothed", {}, {}, Mark::line, 0};
  double low = INFINITY, high = -INFINITY;
  for (const RatePoint& point : range.points) {
    each.x.push_back(point.rate);
    each.y.push_back(point.loss);
    smoothed.x.push_back(point.rate);
    smoothed.y.push_back(point.smoothed);
    low = std::min(low, point.smoothed);
    high = std::max(high, point.smoothed);
  }
  // The losses of the last steps may be far above all others.
  for (double& loss : each.y)
    if (loss > high) loss = NAN;
  p.series.push_back(std::move(each));
  p.series.push_back(std::move(smoothed));
  const auto mark = [&](const char* name, const std::optional<double>& rate, int colour) {
    if (rate) p.series.push_back({name, {*rate, *rate}, {low, high}, Mark::line, colour, false, true});
  };
  mark("falls fastest", range.steepest, 2);
  mark("least loss", range.minimum, 1);
  return p;
}

}  // namespace

std::string render_rates(const RateRange& range, const std::string& title, const std::string& subtitle) {
  using plot::escape;
  std::string out = "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>";
  out += "<meta name='viewport' content='width=device-width,initial-scale=1'><title>" + escape(title) + "</title>";
  out += std::string("<style>") + report_style + "</style></head><body><main>";
  out += "<h1>" + escape(title) + "</h1><p class='sub'>" + escape(subtitle) + "</p>";
  out +=
      "<div class='card'>" + svg(rate_plot(range)) + "</div><p class='note'>" + escape(describe_rates(range)) + "</p>";
  out +=
      "<h2>Steps</h2><div class='card'><table class='narrow'><tr><th class='n'>step</th><th class='n'>learning "
      "rate</th><th class='n'>loss</th><th class='n'>smoothed loss</th></tr>";
  for (std::size_t i = 0; i < range.points.size(); ++i) {
    const RatePoint& p = range.points[i];
    out += fmt::format(
        "<tr><td class='n'>{}</td><td class='n'>{:.3g}</td><td class='n'>{:.5g}</td><td class='n'>{:.5g}</td></tr>",
        i + 1, p.rate, p.loss, p.smoothed);
  }
  return out + "</table></div></main></body></html>\n";
}

std::string rates_csv(const RateRange& range) {
  std::string out = "step,learning_rate,loss,smoothed_loss\n";
  for (std::size_t i = 0; i < range.points.size(); ++i)
    out += fmt::format("{},{},{},{}\n", i + 1, range.points[i].rate, range.points[i].loss, range.points[i].smoothed);
  return out;
}

std::string describe_rates(const RateRange& range) {
  std::string out;
  if (range.steepest)
    out += fmt::format("suggested learning rate: {:.2g}, where the smoothed loss falls fastest\n", *range.steepest);
  else
    out += "no rate is suggested: the loss never fell. Try smaller rates (--lr-min), or more --steps\n";
  if (range.minimum)
    out += fmt::format("the smoothed loss is least at {:.2g}; a tenth of that rate, {:.2g}, is another usual choice\n",
                       *range.minimum, *range.minimum / 10);
  if (range.diverged && !range.points.empty())
    out += fmt::format("training diverged at {:.2g}", range.points.back().rate);
  else
    out += "training did not diverge: larger rates (--lr-max) may work, too";
  return out;
}

}  // namespace keelson::app
