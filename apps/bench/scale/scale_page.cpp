#include "apps/bench/scale/scale_page.hpp"

#include <fmt/format.h>

#include "apps/common/report/report_style.hpp"
#include "apps/common/report/svg_plot.hpp"

namespace keelson::bench {
namespace {

namespace plot = app::plot;
using plot::escape;

std::string efficiency_plot(const ScalePage& page, const std::vector<ScalePoint>& points, const std::string& title,
                            bool compare) {
  plot::Plot p{title, {"ranks", true}, {"efficiency, %", false, 0.0, 100.0}};
  p.width = 1080;
  p.height = 420;
  int colour = 0;
  for (const auto& e : page.exchanges) {
    plot::Series s{e.name, {}, {}, plot::Series::Mark::both, colour++ % 6};
    for (const auto& point : points) {
      if (point.exchange != e.name) continue;
      s.x.push_back(point.ranks);
      s.y.push_back(100 * point.efficiency);
    }
    if (!s.x.empty()) p.series.push_back(std::move(s));
  }
  const auto published = published_on(page.study.machine);
  if (compare && published)
    p.series.push_back({fmt::format("published: {}", published->what),
                        {static_cast<double>(published->ranks)},
                        {100 * published->efficiency},
                        plot::Series::Mark::points,
                        5});
  return svg(p);
}

std::string table(const std::vector<ScalePoint>& points) {
  std::string out =
      "<div class='card'><table><tr><th>exchange</th><th>grid</th><th class='n'>ranks</th><th class='n'>step, ms</th>"
      "<th class='n'>alone, ms</th><th class='n'>computing, ms</th><th class='n'>imbalance, ms</th><th "
      "class='n'>exposed, ms</th>"
      "<th class='n'>sent by a rank, MB</th><th class='n'>messages</th><th class='n'>efficiency</th></tr>";
  for (const auto& p : points)
    out += fmt::format(
        "<tr><td>{}</td><td>{}</td><td class='n'>{}</td><td class='n'>{:.2f}</td><td class='n'>{:.2f}</td>"
        "<td class='n'>{:.2f}</td><td class='n'>{:.2f}</td><td class='n'>{:.2f}</td><td class='n'>{:.1f}</td><td "
        "class='n'>{:.0f}</td><td class='n'>{:.1f} "
        "%</td></tr>",
        escape(p.exchange), escape(p.grid), p.ranks, p.result.step * 1e3, p.alone * 1e3, p.computing * 1e3,
        p.imbalance() * 1e3, p.exposed() * 1e3, p.result.wire_bytes * 1e-6, p.result.messages, 100 * p.efficiency);
  return out + "</table></div>";
}

}  // namespace

std::string render_scale(const ScalePage& page) {
  const auto& m = page.study.machine;
  const auto title = escape(fmt::format("Scaling of {}", page.study.profile.title));
  std::string out = "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>";
  out += "<meta name='viewport' content='width=device-width,initial-scale=1'><title>" + title + "</title>";
  out += std::string("<style>") + app::report_style + "</style></head><body><main><h1>" + title + "</h1>";
  out += "<p class='sub'>simulated with SimGrid on a machine " + escape(m.title) + "</p>";
  out += "<h2>Weak scaling</h2><div class='card'>" +
         efficiency_plot(page, page.weak, "The same samples for each rank", true) + "<p class='note'>";
  for (const auto& e : page.exchanges) out += fmt::format("{}: {}. ", escape(e.name), escape(e.what));
  out +=
      "Each way adds one thing to the way before. Efficiency: the rate of all ranks, divided by so many times the rate "
      "of one rank alone.</p></div>";
  out += table(page.weak);
  if (!page.strong.empty())
    out += "<h2>Strong scaling</h2><div class='card'>" +
           efficiency_plot(page, page.strong, "The same samples for all ranks together", false) + "</div>" +
           table(page.strong);
  return out + "</main></body></html>\n";
}

}  // namespace keelson::bench
