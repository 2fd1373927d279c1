#include "apps/bench/compare/page_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/common/report/svg_plot.hpp"

namespace keelson::bench::comparison {

using app::plot::escape;

std::vector<Group> groups_of(const Comparison& c) {
  std::vector<Group> groups;
  const auto add = [&](const Group& g) {
    for (const auto& known : groups)
      if (known.net == g.net && known.size == g.size) return;
    groups.push_back(g);
  };
  for (const auto& m : c.machines)
    for (const auto& s : m.steps) add({s.net, s.size, s.title, s.unit});
  for (const auto& f : c.published) add({f.net, f.size, fmt::format("{} {}", f.net, f.size)});
  return groups;
}

std::string html_table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows,
                       int texts) {
  std::string out = "<div class='card'><table><tr>";
  const auto kind = [&](std::size_t column) { return static_cast<int>(column) < texts ? "" : " class='n'"; };
  for (std::size_t i = 0; i < head.size(); ++i) out += fmt::format("<th{}>{}</th>", kind(i), escape(head[i]));
  out += "</tr>";
  for (const auto& row : rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      // If a row is short, its last cell is a reason, which fills the remaining columns.
      const bool last = i + 1 == row.size() && row.size() < head.size();
      if (last)
        out += fmt::format("<td class='missing' colspan='{}'>{}</td>", head.size() - i, escape(row[i]));
      else
        out += fmt::format("<td{}>{}</td>", kind(i), escape(row[i]));
    }
    out += "</tr>";
  }
  return out + "</table></div>";
}

std::string card(const std::string& content, const std::string& note) {
  return "<div class='card'>" + content + (note.empty() ? "" : "<p class='note'>" + note + "</p>") + "</div>";
}

std::string chart_cards(const app::plot::BarChart& left, const app::plot::BarChart& right) {
  std::string out;
  int charts = 0;
  for (auto chart : {left, right}) {
    if (std::none_of(chart.bars.begin(), chart.bars.end(), [](auto& b) { return std::isfinite(b.value); })) continue;
    out += card(svg(chart));
    ++charts;
  }
  return charts == 0 ? "" : "<div class='grid2'>" + out + (charts == 1 ? "<div></div>" : "") + "</div>";
}

std::string figure(double v) {
  const double a = std::abs(v);
  if (v == 0) return "0";
  if (a >= 1e6 || a < 1e-4) return fmt::format("{:.3g}", v);
  return a >= 1000 ? fmt::format("{:.0f}", v) : fmt::format("{:.3g}", v);
}

std::string missing_text(const std::string& reason) { return "not measured: " + reason; }

std::string name_of(const Comparison& c, std::size_t i) {
  const auto& name = c.machines[i].name;
  const auto alike = std::count_if(c.machines.begin(), c.machines.end(), [&](auto& m) { return m.name == name; });
  return alike > 1 ? fmt::format("{} ({})", name, i + 1) : name;
}

std::string name_of(const PublishedFigure& f) { return fmt::format("{}: {} (published)", f.device, f.machine); }

std::string device_word(const MachineFile& m) { return m.gpu ? "GPU" : "node"; }

std::vector<PublishedFigure> published_of(const Comparison& c, const Group& g, const std::string& quantity) {
  std::vector<PublishedFigure> some;
  for (const auto& f : c.published)
    if (f.net == g.net && f.size == g.size && f.quantity == quantity) some.push_back(f);
  return some;
}

}  // namespace keelson::bench::comparison
