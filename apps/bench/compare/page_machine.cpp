#include <fmt/format.h>

#include <algorithm>

#include "apps/bench/compare/page_parts.hpp"
#include "apps/bench/roofline.hpp"
#include "apps/common/report/svg_plot.hpp"

namespace keelson::bench::comparison {
namespace {

using app::plot::Bar;
using app::plot::BarChart;
using app::plot::escape;
using app::plot::Plot;
using app::plot::Series;

int colour_of(std::size_t machine) { return static_cast<int>(machine % 6); }

Bar missing_bar(const std::string& label, const std::string& reason) {
  Bar bar{label};
  bar.text = missing_text(reason);
  return bar;
}

Bar value_bar(const std::string& label, double value, std::size_t machine) {
  return {label, value, figure(value), colour_of(machine)};
}

/// The step whose calls are drawn: of the first network, in the largest size and the first precision measured.
const Step* step_to_draw(const MachineFile& m) {
  const Step* best = nullptr;
  for (const auto& s : m.steps) {
    if (!s.figures.value || s.figures.value->calls.empty()) continue;
    if (!best || (s.net == best->net && s.precision == best->precision && s.size != best->size)) best = &s;
  }
  return best;
}

/// A line for each machine.
template <class Draw>
std::string lines_of(const Comparison& c, Plot plot, const Draw& draw) {
  plot.width = 1080;
  plot.height = 380;
  for (std::size_t i = 0; i < c.machines.size(); ++i) {
    Series s{name_of(c, i), {}, {}, Series::Mark::both, colour_of(i)};
    draw(c.machines[i], s);
    if (!s.x.empty()) plot.series.push_back(std::move(s));
  }
  return svg(plot);
}

}  // namespace

std::string machines_section(const Comparison& c) {
  std::string out = "<h2 id='machines'>Machines</h2><div class='grid2'>";
  for (std::size_t i = 0; i < c.machines.size(); ++i) {
    const auto& m = c.machines[i];
    out += fmt::format("<div class='card'><h3><i class='swatch' style='background:var(--s{})'></i>{}</h3><table>",
                       colour_of(i), escape(name_of(c, i)));
    const auto row = [&](const std::string& name, const std::string& text) {
      out += fmt::format("<tr><td class='k'>{}</td><td class='v'>{}</td></tr>", escape(name), escape(text));
    };
    row("Launch", m.layout);
    for (const auto& [name, text] : m.facts) row(name, text);
    row("Keelson", m.keelson + (m.commit.empty() ? "" : ", commit " + m.commit));
    row("Measured", m.measured + (m.quick ? ", --quick: small sizes, few repetitions" : ""));
    row("Energy", m.energy.value ? m.energy.value->source : missing_text(m.energy.reason));
    row("Price", m.price_per_hour.value ? figure(*m.price_per_hour.value) + " an hour" : m.price_per_hour.reason);
    out += "</table></div>";
  }
  return out + "</div>";
}

std::string peaks_section(const Comparison& c) {
  BarChart rates{"Arithmetic at best", "GFLOP/s of a rank's device"},
      copies{"Memory at best", "GB/s, copy, read + written"};
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < c.machines.size(); ++i) {
    const auto& m = c.machines[i];
    const auto name = name_of(c, i);
    if (!m.peaks.value) {
      rates.bars.push_back(missing_bar(name, m.peaks.reason));
      copies.bars.push_back(missing_bar(name, m.peaks.reason));
      rows.push_back({name, missing_text(m.peaks.reason)});
      continue;
    }
    const auto& p = *m.peaks.value;
    const auto ranks = fmt::format("{} on {} node{}", m.ranks, m.nodes, m.nodes == 1 ? "" : "s");
    rates.bars.push_back(value_bar("fp32 multiply-adds: " + name, p.multiply_adds * 1e-9, i));
    copies.bars.push_back(value_bar(name, p.copy * 1e-9, i));
    rows.push_back({name, ranks, "fp32 multiply-adds in registers, GFLOP/s", figure(p.multiply_adds * 1e-9)});
    for (const auto& [precision, rate] : p.products) {
      const auto what = fmt::format("product of {0} x {0} matrices in {1}, GFLOP/s", p.product_size, precision);
      const auto label = fmt::format("matrix product in {}: {}", precision, name);
      rates.bars.push_back(rate.value ? value_bar(label, *rate.value * 1e-9, i) : missing_bar(label, rate.reason));
      rows.push_back({name, ranks, what, rate.value ? figure(*rate.value * 1e-9) : missing_text(rate.reason)});
    }
    rows.push_back({name, ranks, "copy, read + written, GB/s", figure(p.copy * 1e-9)});
  }
  return "<h2 id='peaks'>Peaks</h2>" + chart_cards(rates, copies) +
         html_table({"machine", "ranks", "what", "at best"}, rows, 3) +
         "<p class='note'>Figures of one rank while all ranks of its node are at work. The peak of a precision is the "
         "rate of a large product of matrices; in fp32 the rate of multiply-adds, if that is larger.</p>";
}

std::string scaling_section(const Comparison& c) {
  Plot plot{"Weak scaling: the same samples for each rank", {"ranks", true}, {"efficiency, %", false, 0.0, 110.0}};
  std::vector<std::vector<std::string>> rows;
  bool any = false;
  for (std::size_t i = 0; i < c.machines.size(); ++i) {
    const auto& s = c.machines[i].scaling;
    if (!s.value) {
      rows.push_back({name_of(c, i), missing_text(s.reason)});
      continue;
    }
    any = true;
    for (const auto& p : s.value->points)
      rows.push_back({name_of(c, i), fmt::format("{} {} {}", s.value->net, s.value->size, s.value->precision),
                      std::to_string(p.ranks), figure(p.samples_per_second),
                      fmt::format("{:.1f} %", 100 * p.efficiency)});
  }
  for (const auto& f : c.published) {
    if (f.quantity != "efficiency") continue;
    Series s{name_of(f), {static_cast<double>(f.devices)}, {100 * f.value}, Series::Mark::points};
    s.labels = {f.device + ", published"};
    s.colour = 5;
    s.radii = {5};
    s.name = "";
    s.titles = {fmt::format("{}: {} %", name_of(f), figure(100 * f.value))};
    plot.series.push_back(std::move(s));
    rows.push_back({name_of(f), fmt::format("{} {}", f.net, f.size), std::to_string(f.devices), "",
                    fmt::format("{:.1f} %", 100 * f.value)});
  }
  const auto lines = lines_of(c, plot, [](const MachineFile& m, Series& s) {
    if (m.scaling.value)
      for (const auto& p : m.scaling.value->points) s.x.push_back(p.ranks), s.y.push_back(100 * p.efficiency);
  });
  return "<h2 id='scaling'>Scaling</h2>" +
         card(any || !plot.series.empty() ? lines : "",
              "Efficiency: samples/s of a rank over those of one rank alone. Single "
              "points with labels are published, each with its own network.") +
         html_table({"machine", "network", "ranks", "samples/s", "efficiency"}, rows, 2);
}

std::string roofline_section(const Comparison& c) {
  std::string out =
      "<h2 id='roofline'>Rooflines</h2><p class='note'>Each point is one call of a step, its area its part of "
      "the time; the line is what the machine can do.</p><div class='grid2'>";
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < c.machines.size(); ++i) {
    const auto& m = c.machines[i];
    const Step* step = step_to_draw(m);
    if (!step || !m.peaks.value) {
      const auto why = !step ? std::string("no step was measured with its calls") : m.peaks.reason;
      out += card("<h3>" + escape(name_of(c, i)) + "</h3>", escape(missing_text(why)));
      rows.push_back({name_of(c, i), missing_text(why)});
      continue;
    }
    RooflineInput in;
    in.peaks = {std::max(m.peaks.value->of(step->precision), 1.0), m.peaks.value->copy};
    double total = 0;
    for (const auto& k : step->figures.value->calls) {
      PlanRow r;
      r.phase = k.phase, r.node = k.node, r.op = k.op, r.backend = k.backend, r.kernel = k.kernel;
      r.gflop = k.gflop, r.least_gflop = k.least_gflop, r.megabytes = k.megabytes, r.milliseconds = k.milliseconds;
      total += r.milliseconds;
      in.rows.push_back(std::move(r));
    }
    out += card(roofline_plot(in, fmt::format("{}: {}, {}", name_of(c, i), step->title, step->precision), 560, 400));
    for (std::size_t k = 0; k < std::min<std::size_t>(5, in.rows.size()); ++k) {
      const auto& r = in.rows[k];
      rows.push_back({name_of(c, i), step->title + ", " + step->precision, r.phase, r.node + " " + r.op, r.backend,
                      figure(r.milliseconds), fmt::format("{:.1f} %", 100 * r.milliseconds / total),
                      figure(r.gflop_per_second()), figure(r.gigabytes_per_second()),
                      fmt::format("{:.1f} %", 100 * r.share(in.peaks))});
    }
  }
  return out + "</div>" +
         html_table(
             {"machine", "network", "phase", "call", "backend", "ms", "of the calls", "GFLOP/s", "GB/s", "of peak"},
             rows, 5);
}

std::string sums_section(const Comparison& c) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < c.machines.size(); ++i) {
    const auto& sums = c.machines[i].collectives;
    if (!sums.value) rows.push_back({name_of(c, i), missing_text(sums.reason)});
    if (sums.value)
      for (const auto& s : *sums.value)
        rows.push_back({name_of(c, i), std::to_string(c.machines[i].ranks), std::to_string(s.bytes),
                        figure(s.seconds * 1e6), figure(s.bus_bytes_per_second * 1e-9), s.algorithm});
  }
  const bool any =
      std::any_of(c.machines.begin(), c.machines.end(), [](auto& m) { return m.collectives.value.has_value(); });
  const auto plot =
      lines_of(c, {"Sum over ranks", {"bytes", true}, {"GB/s on the bus", true}}, [](const MachineFile& m, Series& s) {
        if (m.collectives.value)
          for (const auto& p : *m.collectives.value)
            s.x.push_back(static_cast<double>(p.bytes)), s.y.push_back(p.bus_bytes_per_second * 1e-9);
      });
  return "<h2 id='collectives'>Collectives</h2>" +
         (any ? card(plot,
                     "The engine's sum of f32, as gradients are exchanged: 2 (n - 1) / n of the bytes over the time.")
              : "") +
         html_table({"machine", "ranks", "bytes", "us", "GB/s on the bus", "algorithm"}, rows, 1);
}

std::string reading_section(const Comparison& c) {
  BarChart chart{"Reading and decoding", "samples/s, all ranks", {}, 1080};
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < c.machines.size(); ++i) {
    const auto& in = c.machines[i].input;
    const auto name = name_of(c, i);
    chart.bars.push_back(in.value ? value_bar(name + ": " + in.value->data, in.value->samples_per_second, i)
                                  : missing_bar(name, in.reason));
    rows.push_back({name});
    if (in.value)
      rows.back().insert(rows.back().end(),
                         {in.value->data, figure(in.value->samples_per_second),
                          figure(in.value->bytes_per_second * 1e-6), std::to_string(in.value->threads)});
    else
      rows.back().push_back(missing_text(in.reason));
  }
  return "<h2 id='input'>Input</h2>" + card(svg(chart), "Rates of different data cannot be compared: see the table.") +
         html_table({"machine", "data", "samples/s", "MB/s", "decoding threads a rank"}, rows, 2);
}

std::string published_section(const Comparison& c) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& f : c.published)
    rows.push_back({f.device, f.machine, fmt::format("{} {}", f.net, f.size), f.quantity, figure(f.value), f.precision,
                    f.what, f.source, f.where});
  return "<h2 id='published'>Published figures and where they are from</h2><p class='note'>Not measured by Keelson, "
         "and not "
         "under the same conditions. Values are for the whole job.</p><div class='sources'>" +
         html_table({"device", "machine", "network", "quantity", "value", "precision", "what", "source", "where"}, rows,
                    9) +
         "</div>";
}

}  // namespace keelson::bench::comparison
