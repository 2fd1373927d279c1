#include "apps/lm/scaling.hpp"

#include <fmt/format.h>

#include "apps/common/report/report_style.hpp"
#include "apps/common/report/svg_plot.hpp"

namespace keelson::lm {
namespace {

namespace plot = app::plot;
using app::report_style;
using plot::escape;
using Mark = plot::Series::Mark;

std::string card(const std::string& inside) { return "<div class='card'>" + inside + "</div>"; }

template <class Get>
plot::Series series(const ScalingTable& t, const std::string& name, int colour, Get get) {
  plot::Series s{name, {}, {}, Mark::both, colour};
  for (const auto& r : t.rows) {
    s.x.push_back(r.ranks);
    s.y.push_back(get(r));
  }
  return s;
}

plot::Series ideal(const ScalingTable& t, double at_one, bool grows) {
  const double last = t.rows.back().ranks;
  return {"ideal", {1, last}, {at_one, grows ? at_one * last : at_one}, Mark::line, 5, false, true};
}

std::string plots(const ScalingTable& t) {
  const plot::Axis ranks{"ranks", true};
  plot::Plot speed{"Words per second, all ranks", ranks, {"words/s", true}};
  speed.series.push_back(series(t, "measured", 0, [](auto& r) { return r.words_per_second; }));
  speed.series.push_back(ideal(t, t.rows.front().words_per_second, true));
  plot::Plot efficiency{"Efficiency against one rank", ranks, {"efficiency", false, 0.0, 1.1}};
  efficiency.series.push_back(series(t, "measured", 1, [&](auto& r) { return t.efficiency(r); }));
  efficiency.series.push_back(ideal(t, 1, false));
  return "<div class='grid2'>" + card(svg(speed)) + card(svg(efficiency)) + "</div>";
}

std::string table(const ScalingTable& t) {
  std::string out =
      "<table><tr><th class='n'>ranks</th><th class='n'>streams per rank</th><th class='n'>words/s per rank</th><th "
      "class='n'>words/s</th><th class='n'>speed-up</th><th class='n'>efficiency</th><th class='n'>ms per step</th><th "
      "class='n'>waiting for gradients</th></tr>";
  for (const auto& r : t.rows)
    out += fmt::format(
        "<tr><td class='n'>{}</td><td class='n'>{}</td><td class='n'>{:.0f}</td><td class='n'>{:.0f}</td><td "
        "class='n'>{:.2f}</td><td class='n'>{:.0f} %</td><td class='n'>{:.1f}</td><td class='n'>{:.1f} %</td></tr>",
        r.ranks, r.batch, r.words_per_second / r.ranks, r.words_per_second, t.speed_up(r), 100 * t.efficiency(r),
        r.seconds_per_step * 1e3, 100 * r.exchange_share);
  return card(out + "</table>");
}

}  // namespace

std::string ScalingTable::header() const {
  return fmt::format("{}\n{}; {}\n{}\n\n{:>6} {:>8} {:>14} {:>12} {:>9} {:>11} {:>9} {:>9}\n", net, machine, device,
                     strong ? "one global batch, divided among the ranks" : "a batch for each rank", "ranks", "batch",
                     "words/s/rank", "words/s", "speed-up", "efficiency", "ms/step", "exchange");
}

std::string ScalingTable::line(const ScalingRow& r) const {
  return fmt::format("{:>6} {:>8} {:>14.0f} {:>12.0f} {:>9.2f} {:>9.0f} % {:>9.1f} {:>7.1f} %\n", r.ranks, r.batch,
                     r.words_per_second / r.ranks, r.words_per_second, speed_up(r), 100 * efficiency(r),
                     r.seconds_per_step * 1e3, 100 * r.exchange_share);
}

std::string render_scaling(const ScalingTable& t) {
  std::string out = "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>";
  out += "<meta name='viewport' content='width=device-width,initial-scale=1'><title>Scaling</title>";
  out += std::string("<style>") + report_style + "</style></head><body><main><h1>Scaling of training</h1>";
  out += "<p class='sub'>" + escape(t.net) + "<br>" + escape(t.machine) + "; " + escape(t.device) + "</p>";
  out += plots(t) + "<h2>Table</h2>" + table(t);
  out += fmt::format(
      "<p class='note'>{} Ranks that do not take part wait. Speed-up and efficiency are relative to one rank of the "
      "same job, with the same cores or the same GPU for itself. Waiting: the part of a step in which the rank that "
      "waits longest only waits for the other ranks' gradients; exchange during the backward pass is not counted.</p>",
      t.strong ? "Strong scaling: one global batch, divided among the ranks."
               : "Weak scaling: each rank has a batch of its own.");
  return out + "</main></body></html>\n";
}

}  // namespace keelson::lm
