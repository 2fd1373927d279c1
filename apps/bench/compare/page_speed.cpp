#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "apps/bench/compare/page_parts.hpp"
#include "apps/common/report/svg_plot.hpp"

namespace keelson::bench::comparison {
namespace {

using app::plot::Bar;
using app::plot::BarChart;
using app::plot::escape;

/// One step of one machine.
struct Entry {
  std::size_t machine;
  const Step* step;
};

std::vector<Entry> entries_of(const Comparison& c, const Group& g) {
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < c.machines.size(); ++i)
    for (const auto& s : c.machines[i].steps)
      if (s.net == g.net && s.size == g.size) entries.push_back({i, &s});
  return entries;
}

std::string label_of(const Comparison& c, const Entry& e) {
  // The words that differ within a machine come first, since long labels are cut.
  return fmt::format("{}, batch {}: {}", e.step->precision, e.step->batch, name_of(c, e.machine));
}

/// A bar for a figure of a step. `value` is called only if the step was measured.
template <class Value>
Bar bar_of(const Comparison& c, const Entry& e, const Value& value) {
  Bar bar{label_of(c, e)};
  bar.colour = static_cast<int>(e.machine);
  if (!e.step->figures.value) {
    bar.text = missing_text(e.step->figures.reason);
    return bar;
  }
  const Measured<double> v = value(*e.step->figures.value);
  if (v.value) bar.value = *v.value;
  bar.text = v.value ? figure(*v.value) : missing_text(v.reason);
  return bar;
}

Bar published_bar(const PublishedFigure& f, double scale) {
  return {name_of(f), f.per_device() * scale, figure(f.per_device() * scale), 0, true};
}

std::string devices_of(const MachineFile& m) {
  return fmt::format("{} {}{}", m.devices(), device_word(m), m.devices() == 1 ? "" : "s");
}

std::string speed_of(const Comparison& c, const Group& g) {
  BarChart rate{g.title + ": rate of training", "samples/s of a device (a GPU, or a node of processors)"};
  BarChart share{g.title + ": share of peak", "% of the measured peak in the precision"};
  std::vector<std::vector<std::string>> rows;
  for (const auto& e : entries_of(c, g)) {
    const auto& m = c.machines[e.machine];
    rate.bars.push_back(
        bar_of(c, e, [&](auto& f) { return Measured<double>{f.samples_per_second / m.devices(), ""}; }));
    share.bars.push_back(bar_of(c, e, [](auto& f) {
      auto v = f.share_of_peak;
      if (v.value) *v.value *= 100;
      return v;
    }));
    std::vector<std::string> row{name_of(c, e.machine), e.step->precision, std::to_string(e.step->batch),
                                 devices_of(m)};
    const auto& f = e.step->figures;
    if (!f.value) {
      row.push_back(missing_text(f.reason));
    } else {
      row.insert(row.end(), {figure(f.value->samples_per_second), figure(f.value->samples_per_second / m.devices())});
      row.push_back(g.unit == "sample"
                        ? ""
                        : figure(f.value->samples_per_second * static_cast<double>(e.step->units_per_sample)));
      row.push_back(fmt::format("{} ({} to {})", figure(f.value->seconds * 1e3), figure(f.value->fastest * 1e3),
                                figure(f.value->slowest * 1e3)));
      row.push_back(figure(f.value->flops_per_second * 1e-9));
      row.push_back(f.value->share_of_peak.value ? fmt::format("{:.1f} %", 100 * *f.value->share_of_peak.value) : "?");
    }
    rows.push_back(std::move(row));
  }
  for (const auto& f : published_of(c, g, "samples_per_second")) {
    rate.bars.push_back(published_bar(f, 1));
    rows.push_back({name_of(f), f.precision, "", fmt::format("{} devices", f.devices), figure(f.value),
                    figure(f.per_device()), "", "", "", ""});
  }
  if (rate.bars.empty()) return "";
  const std::string units = g.unit == "sample" ? "" : g.unit + "s/s";
  return "<h3>" + escape(g.title) + "</h3>" + chart_cards(rate, share) +
         html_table({"machine", "precision", "batch of a rank", "devices", "samples/s", "of a device", units,
                     "ms a step (range)", "GFLOP/s", "share of peak"},
                    rows, 4);
}

/// GFLOP/s of a device: a figure by which networks of different sizes can be compared.
std::string arithmetic_of(const Comparison& c, const std::string& net) {
  BarChart chart{net + ": arithmetic in training", "GFLOP/s of a device (a GPU, or a node of processors)", {}, 1080};
  std::vector<std::vector<std::string>> rows;
  for (const auto& g : groups_of(c)) {
    if (g.net != net) continue;
    for (const auto& e : entries_of(c, g)) {
      const auto& m = c.machines[e.machine];
      auto bar = bar_of(c, e, [&](auto& f) { return Measured<double>{f.flops_per_second * 1e-9 / m.devices(), ""}; });
      bar.label = fmt::format("{}, {}", g.title, bar.label);
      if (bar.value != bar.value) continue;  // the section of speed says why
      rows.push_back({name_of(c, e.machine), g.title, e.step->precision, devices_of(m), "", bar.text});
      chart.bars.push_back(std::move(bar));
    }
    for (const auto& f : published_of(c, g, "flops_per_second")) {
      chart.bars.push_back(published_bar(f, 1e-9));
      chart.bars.back().label += (f.precision.starts_with("not") ? ", precision " : ", ") + f.precision;
      rows.push_back(
          {name_of(f), g.title, f.precision, fmt::format("{} devices", f.devices), f.what, chart.bars.back().text});
    }
  }
  return card(svg(chart)) +
         html_table({"machine", "network", "precision", "devices", "remark", "GFLOP/s of a device"}, rows, 5);
}

}  // namespace

std::string speed_section(const Comparison& c) {
  std::string out =
      "<h2 id='speed'>Speed</h2><p class='note'>Whole training steps (forward, backward, exchange of gradients, "
      "update) on "
      "made-up data that lie in memory; the median, of the slowest rank. Published figures (hatched) are of whole "
      "trainings, "
      "with their input, on many devices. A share of peak is of the FLOP that the step executes over the machine's "
      "measured "
      "peak in the precision.</p>";
  for (const auto& g : groups_of(c)) out += speed_of(c, g);
  return out;
}

std::string arithmetic_section(const Comparison& c) {
  std::vector<std::string> nets;
  for (const auto& f : c.published)
    if (f.quantity == "flops_per_second" && std::find(nets.begin(), nets.end(), f.net) == nets.end())
      nets.push_back(f.net);
  std::string out =
      "<h2 id='arithmetic'>Arithmetic in training</h2><p class='note'>For networks with published FLOP/s. "
      "The "
      "papers count operations in their own way.</p>";
  for (const auto& net : nets) out += arithmetic_of(c, net);
  return nets.empty() ? "" : out;
}

std::string cost_section(const Comparison& c) {
  std::string out = fmt::format(
      "<h2 id='cost'>Time, energy and price</h2><p class='note'>For one sample and for {} samples, with the whole job. "
      "Joules are measured while the steps run, by the counters that the machine's file names; above idle: without the "
      "energy that the idle machine uses in that time. ",
      c.samples);
  for (std::size_t i = 0; i < c.machines.size(); ++i) {
    const auto& e = c.machines[i].energy;
    out += escape(fmt::format(
        "{}: {}. ", name_of(c, i),
        e.value ? fmt::format("{}; idle {} W", e.value->source, figure(e.value->idle_watts)) : missing_text(e.reason)));
  }
  out += "</p>";
  for (const auto& g : groups_of(c)) {
    BarChart time{g.title + ": time to " + std::to_string(c.samples) + " samples", "hours, whole job"};
    BarChart energy{g.title + ": energy to a sample", "joules"};
    std::vector<std::vector<std::string>> rows;
    const double n = static_cast<double>(c.samples);
    for (const auto& e : entries_of(c, g)) {
      const auto& m = c.machines[e.machine];
      time.bars.push_back(bar_of(c, e, [&](auto& f) { return Measured<double>{n / f.samples_per_second / 3600, ""}; }));
      energy.bars.push_back(bar_of(c, e, [](auto& f) {
        return f.energy.value ? Measured<double>{f.energy.value->joules_per_sample, ""}
                              : Measured<double>::missing(f.energy.reason);
      }));
      std::vector<std::string> row{name_of(c, e.machine), e.step->precision, devices_of(m)};
      if (const auto& f = e.step->figures.value) {
        const double hours = n / f->samples_per_second / 3600;
        row.insert(row.end(), {figure(1e3 / f->samples_per_second), figure(hours)});
        if (const auto& j = f->energy.value)
          row.insert(row.end(), {figure(j->joules_per_sample), figure(j->joules_per_sample_above_idle),
                                 figure(j->watts), figure(j->joules_per_sample * n / 3.6e6)});
        else
          row.insert(row.end(), {"–", "–", "–", "–"});
        row.push_back(m.price_per_hour.value ? figure(*m.price_per_hour.value * hours) : "no price given");
      } else {
        row.push_back(missing_text(e.step->figures.reason));
      }
      rows.push_back(std::move(row));
    }
    if (rows.empty()) continue;
    for (const auto& f : published_of(c, g, "samples_per_second"))
      rows.push_back({name_of(f), f.precision, fmt::format("{} devices", f.devices), figure(1e3 / f.value),
                      figure(n / f.value / 3600), "–", "–", "–", "–", "–"});
    out += "<h3>" + escape(g.title) + "</h3>" + chart_cards(time, energy) +
           html_table({"machine", "precision", "devices", "ms a sample", fmt::format("h for {}", c.samples),
                       "J a sample", "above idle", "W", fmt::format("kWh for {}", c.samples), "price"},
                      rows, 3);
  }
  return out;
}

}  // namespace keelson::bench::comparison
