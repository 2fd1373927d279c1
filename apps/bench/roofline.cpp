#include "apps/bench/roofline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/common/report/report_style.hpp"
#include "apps/common/report/svg_plot.hpp"

namespace keelson::bench {
namespace {

namespace plot = app::plot;
using app::report_style;
using plot::escape;

constexpr const char* extra_style = R"css(
td .share{display:inline-block;vertical-align:middle;width:52px;height:9px;margin-right:6px;border-radius:3px;background:var(--grid)}
td .share i{display:block;height:9px;border-radius:3px;background:var(--s0)}
main{max-width:1280px}
.plan td,.plan th{padding-right:9px;font-size:12px}
svg .points{stroke:var(--card);stroke-width:1}
)css";

double total_ms(const RooflineInput& in) {
  double sum = 0;
  for (const auto& r : in.rows) sum += r.milliseconds_per_step();
  return sum;
}

double intensity(const PlanRow& r) { return r.gflop * 1e3 / r.megabytes; }

std::string name_of(const PlanRow& r) { return r.phase == "forward" ? r.node + " " + r.op : r.node + ", " + r.op; }

std::string hover(const PlanRow& r, const RooflineInput& in) {
  return fmt::format("{}, {}: {}, {}\n{:.3g} ms ({:.1f} % of the calls), {:.4g} GFLOP/s, {:.3g} GB/s, {:.1f} % of peak",
                     r.phase, name_of(r), r.backend, r.kernel, r.milliseconds, 100 * r.milliseconds / total_ms(in),
                     r.gflop_per_second(), r.gigabytes_per_second(), 100 * r.share(in.peaks));
}

/// The calls of one phase that do arithmetic. The area of a point is its share of the time.
plot::Series points_of(const RooflineInput& in, const std::string& phase, int colour, double least_labelled) {
  plot::Series s{phase, {}, {}, plot::Series::Mark::points, colour};
  const double all = total_ms(in);
  for (const auto& r : in.rows) {
    // Calls with very little time or arithmetic are left out, since they would stretch the axes; the tables have them.
    if (r.phase != phase || r.gflop <= 0 || r.megabytes <= 0 || r.milliseconds < 5e-4 * all) continue;
    if (r.gflop_per_second() * 1e9 < 1e-5 * in.peaks.flops_per_second) continue;
    s.x.push_back(intensity(r));
    s.y.push_back(r.gflop_per_second());
    s.titles.push_back(hover(r, in));
    s.labels.push_back(r.milliseconds >= least_labelled ? name_of(r) : "");
    s.radii.push_back(std::clamp(40 * std::sqrt(r.milliseconds / all), 3.0, 24.0));
  }
  return s;
}

/// The time of the fifth longest call: calls that take at least as long get their names into the plot.
double fifth_longest(const RooflineInput& in) {
  std::vector<double> ms;
  for (const auto& r : in.rows)
    if (r.gflop > 0) ms.push_back(r.milliseconds);
  std::sort(ms.rbegin(), ms.rend());
  return ms.empty() ? 0 : ms[std::min<std::size_t>(4, ms.size() - 1)];
}

std::string number(double v) { return v <= 0 ? "" : v < 1000 ? fmt::format("{:.3g}", v) : fmt::format("{:.0f}", v); }

/// Rows sorted by time, longest first. `arithmetic`: whether to show the columns about FLOPs.
std::string table(const RooflineInput& in, std::vector<PlanRow> rows, bool arithmetic) {
  std::stable_sort(rows.begin(), rows.end(), [](auto& a, auto& b) { return a.milliseconds > b.milliseconds; });
  std::string out = "<div class='card plan'><table><tr><th>phase</th><th>node</th><th>op</th><th>backend</th>";
  out += "<th>kernel</th>";
  if (arithmetic) out += "<th class='n'>GFLOP</th>";
  out += "<th class='n'>MB</th>";
  if (arithmetic) out += "<th class='n'>FLOP/byte</th>";
  out += "<th class='n'>ms</th><th class='n'>of all</th>";
  if (arithmetic) out += "<th class='n'>GFLOP/s</th>";
  out += "<th class='n'>GB/s</th><th>share of peak</th></tr>";
  const double all = total_ms(in);
  for (const auto& r : rows) {
    const double share = r.share(in.peaks);
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>", escape(r.phase), escape(r.node),
                       escape(r.op_with_period()), escape(r.backend), escape(r.kernel));
    if (arithmetic) out += fmt::format("<td class='n'>{}</td>", number(r.gflop));
    out += fmt::format("<td class='n'>{}</td>", number(r.megabytes));
    if (arithmetic) out += fmt::format("<td class='n'>{}</td>", number(intensity(r)));
    out += fmt::format("<td class='n'>{}</td><td class='n'>{:.1f} %</td>", number(r.milliseconds),
                       all > 0 ? 100 * r.milliseconds_per_step() / all : 0);
    if (arithmetic) out += fmt::format("<td class='n'>{}</td>", number(r.gflop_per_second()));
    out += fmt::format("<td class='n'>{}</td>", number(r.gigabytes_per_second()));
    out += share > 0 ? fmt::format("<td><span class='share'><i style='width:{:.0f}%'></i></span>{:.1f} %</td></tr>",
                                   100 * std::min(share, 1.0), 100 * share)
                     : "<td></td></tr>";
  }
  return out + "</table></div>";
}

std::string tiles(const RooflineInput& in) {
  double gflop = 0;
  for (const auto& r : in.rows) gflop += r.gflop / static_cast<double>(r.period);
  std::string out = "<div class='tiles'>";
  const auto tile = [&](const std::string& value, const std::string& label) {
    out += fmt::format("<div class='tile'><b>{}</b><span>{}</span></div>", value, label);
  };
  tile(fmt::format("{:.4g} ms", in.seconds_per_step * 1e3), fmt::format("a {}, median", in.what));
  tile(fmt::format("{:.3g}", in.samples_per_second), "samples per second, all ranks");
  tile(fmt::format("{:.4g}", gflop / in.seconds_per_step), fmt::format("GFLOP/s per rank, whole {}", in.what));
  tile(fmt::format("{:.1f} %", total_ms(in) > 0 ? 100 * least_milliseconds(in.rows, in.peaks) / total_ms(in) : 0),
       "of the machine's peak, all calls");
  tile(fmt::format("{:.4g} GFLOP/s", in.peaks.flops_per_second * 1e-9), "measured peak, f32 multiply-adds");
  tile(fmt::format("{:.3g} GB/s", in.peaks.copy_bytes_per_second * 1e-9), "measured copy, read + written");
  return out + "</div>";
}

}  // namespace

std::string roofline_plot(const RooflineInput& in, const std::string& title, int width, int height) {
  plot::Plot p{title, {"FLOP per byte", true}, {"GFLOP/s", true}};
  p.width = width;
  p.height = height;
  const double least_labelled = fifth_longest(in);
  int colour = 1;
  for (const char* phase : {"forward", "backward", "update"}) {
    auto s = points_of(in, phase, colour++, least_labelled);
    if (!s.x.empty()) p.series.push_back(std::move(s));
  }
  const double ridge = in.peaks.flops_per_second / in.peaks.copy_bytes_per_second;
  double low = ridge / 30, high = ridge * 30;
  for (const auto& s : p.series)
    for (double x : s.x) low = std::min(low, x / 1.5), high = std::max(high, x * 1.5);
  plot::Series roof{fmt::format("roofline: {:.1f} GFLOP/s, {:.1f} GB/s", in.peaks.flops_per_second * 1e-9,
                                in.peaks.copy_bytes_per_second * 1e-9),
                    {low, ridge, high}};
  for (double x : roof.x) roof.y.push_back(in.peaks.attainable(x) * 1e-9);
  p.series.insert(p.series.begin(), std::move(roof));
  return svg(p);
}

std::string render_roofline(const RooflineInput& in) {
  std::vector<PlanRow> arithmetic, movement;
  for (const auto& r : in.rows) (r.gflop > 0 ? arithmetic : movement).push_back(r);
  const auto title = escape(in.title);
  std::string out = "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>";
  out += "<meta name='viewport' content='width=device-width,initial-scale=1'><title>" + title + "</title>";
  out += std::string("<style>") + report_style + extra_style + "</style></head><body><main>";
  out += "<h1>" + title + "</h1><p class='sub'>" + escape(in.subtitle) + "</p>" + tiles(in);
  out += "<h2>Roofline</h2><div class='card'>" +
         roofline_plot(in, fmt::format("The calls of a {} on this machine's roofline", in.what), 1120, 520);
  out +=
      "<p class='note'>Each point is one call; its area is its part of the time. The line is what "
      "the machine can do: left of its bend memory limits, right of it arithmetic. FLOPs and bytes are the least that "
      "the call needs, every operand read or written once, so a point lies above the line where caches held the data, "
      "or where a convolution skips padding. "
      "Rest the pointer on a point for its numbers. Calls below 0.05 % of the time, or below a "
      "hundred thousandth of the peak, are in the tables only.</p></div>";
  out += "<h2>Calls with arithmetic</h2>" + table(in, arithmetic, true);
  out +=
      "<p class='note'>Share of peak: the larger of GFLOP/s over the peak of multiply-adds and GB/s over the bandwidth "
      "of a copy. Calls that are far below 100 % and take much time are worth work.</p>";
  if (!movement.empty()) out += "<h2>Calls that only move data, or were not counted</h2>" + table(in, movement, false);
  return out + "</main></body></html>\n";
}

}  // namespace keelson::bench
