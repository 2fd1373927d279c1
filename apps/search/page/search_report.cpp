#include "apps/search/page/search_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <vector>

#include "apps/common/report/report_style.hpp"
#include "apps/common/report/svg_plot.hpp"
#include "apps/search/page/draw_network.hpp"
#include "apps/search/page/population_report.hpp"
#include "engine/base/atomic_file.hpp"
#include "engine/base/counted.hpp"

namespace keelson::search {
namespace {

using app::plot::Axis;
using app::plot::escape;
using app::plot::Plot;
using app::plot::Series;

const Individual& at(const Population& p, std::int64_t id) { return p.all()[static_cast<std::size_t>(id)]; }

/// Loss over the number of the network, by where the networks come from, and the best so far.
Plot course(const Population& p) {
  Plot plot{"Loss of each network", {"network"}, {"validation loss", true}, {}, 760, 340};
  Series random{"random", {}, {}, Series::Mark::points, 1}, bred{"bred", {}, {}, Series::Mark::points, 0},
      best{"best so far", {}, {}, Series::Mark::line, 2};
  double least = std::numeric_limits<double>::infinity();
  for (const Individual& i : p.all()) {
    if (i.last() == nullptr) continue;
    Series& s = i.parents.empty() ? random : bred;
    s.x.push_back(static_cast<double>(i.id));
    s.y.push_back(i.last()->loss);
    s.titles.push_back(result_of(i, p.settings()) + " (" + i.origin + ")");
    least = std::min(least, i.last()->loss);
    best.x.push_back(static_cast<double>(i.id));
    best.y.push_back(least);
  }
  plot.series = {random, bred, best};
  return plot;
}

/// Loss over parameters, with the networks that no other dominates in both.
Plot sizes(const Population& p) {
  Plot plot{"Loss over size", {"parameters", true}, {"validation loss", true}, {}, 760, 340};
  std::vector<const Individual*> all;
  for (const Individual& i : p.all())
    if (i.last() != nullptr) all.push_back(&i);
  std::stable_sort(all.begin(), all.end(), [](auto* a, auto* b) { return a->cost.parameters < b->cost.parameters; });
  Series points{"networks", {}, {}, Series::Mark::points, 0}, front{"not dominated", {}, {}, Series::Mark::both, 2};
  double least = std::numeric_limits<double>::infinity();
  for (const Individual* i : all) {
    points.x.push_back(static_cast<double>(i->cost.parameters));
    points.y.push_back(i->last()->loss);
    points.titles.push_back(result_of(*i, p.settings()));
    if (i->last()->loss >= least) continue;
    least = i->last()->loss;
    front.x.push_back(static_cast<double>(i->cost.parameters));
    front.y.push_back(least);
  }
  plot.series = {points, front};
  return plot;
}

std::string row(const std::vector<std::string>& cells, const char* tag = "td") {
  std::string text = "<tr>";
  for (const auto& c : cells) text += fmt::format("<{0}>{1}</{0}>", tag, c);
  return text + "</tr>\n";
}

std::string table_of_best(const Population& p, std::size_t most) {
  const bool classes = p.settings().space.classes;
  std::string text = "<table>\n" + row({"network", "loss", classes ? "accuracy" : "", "parameters", "ms a step",
                                        "epochs", "origin", "design"},
                                       "th");
  for (const std::int64_t id : p.best(most)) {
    const Individual& i = at(p, id);
    const Result& r = *i.last();
    std::string origin = escape(i.origin);
    for (std::size_t k = 0; k < i.parents.size(); ++k)
      origin += fmt::format("{}{}", k == 0 ? " of " : ", ", i.parents[k]);
    text += row({std::to_string(id), fmt::format("{:.5g}", r.loss), classes ? fmt::format("{:.4f}", r.metric) : "",
                 std::to_string(i.cost.parameters), fmt::format("{:.3g}", r.step_ms),
                 fmt::format("{:g}", p.settings().epochs_of(r.rung)), origin,
                 escape(summary_of(i.genome_of_last(), p.settings().space))});
  }
  return text + "</table>\n";
}

/// The best network's ancestors: each generation a list below its child.
std::string family(const Population& p, std::int64_t id, std::set<std::int64_t>& shown, int depth) {
  const Individual& i = at(p, id);
  std::string text = fmt::format("<li><b>{}</b> <em>{}</em>", escape(result_of(i, p.settings())), escape(i.origin));
  constexpr int most_depth = 40;
  if (!shown.insert(id).second) return text + " (above)</li>\n";
  if (!i.parents.empty() && depth < most_depth) {
    text += "<ul>\n";
    for (const std::int64_t parent : i.parents) text += family(p, parent, shown, depth + 1);
    text += "</ul>";
  }
  return text + "</li>\n";
}

std::string rungs(const Population& p) {
  if (p.settings().rungs() == 1 || p.settings().trains_population()) return "";
  std::string text = "<h2>Early stopping</h2>\n<table>\n" + row({"epochs", "networks"}, "th");
  for (int rung = 0; rung < p.settings().rungs(); ++rung) {
    const auto n = std::ranges::count_if(p.all(), [&](const Individual& i) { return std::ssize(i.results) > rung; });
    text += row({fmt::format("{:g}", p.settings().epochs_of(rung)), std::to_string(n)});
  }
  return text + "</table>\n";
}

std::string failures(const Population& p) {
  std::string text;
  for (const Individual& i : p.all())
    if (!i.failure.empty())
      text += row({std::to_string(i.id), escape(i.failure), escape(summary_of(i.genome, p.settings().space))});
  return text.empty() ? ""
                      : "<h2>Failed</h2>\n<table>\n" + row({"network", "reason", "design"}, "th") + text + "</table>\n";
}

}  // namespace

std::string render_search(const ReadSearch& search) {
  const Population& p = search.population();
  std::string text = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\">"
      "<title>Search {0}</title>\n<style>{1}</style>\n<body><main>\n<h1>Search {0}</h1>\n<p>{2}</p>\n",
      escape(search.folder().path.string()), app::report_style, escape(state_of(p)));
  constexpr std::size_t most_networks = 20, drawn = 3;
  const auto best = p.best(drawn);
  const bool together = p.settings().trains_population();
  text += together ? population_curves(p) : app::plot::svg(course(p)) + app::plot::svg(sizes(p));
  text += "<h2>The best networks</h2>\n" + table_of_best(p, most_networks);
  if (together) text += lineage_of_best(p);
  for (const std::int64_t id : best) {
    if (together && id != best[0]) break;  // all members are the same network
    text += fmt::format("<h3>Network {}</h3>\n{}", id, draw_network(at(p, id).genome, p.settings().space));
  }
  if (!best.empty() && !together) {
    std::set<std::int64_t> shown;
    text += "<h2>Ancestors of the best</h2>\n<ul>\n" + family(p, best[0], shown, 0) + "</ul>\n";
  }
  text += rungs(p) + failures(p);
  return text + "</main></body></html>\n";
}

void write_report(const ReadSearch& search) { write_atomically(search.folder().report(), render_search(search)); }

}  // namespace keelson::search
