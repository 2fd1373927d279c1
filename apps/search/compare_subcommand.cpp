#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/common/report/report_style.hpp"
#include "apps/common/report/svg_plot.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/search/compare_methods.hpp"
#include "apps/search/subcommands.hpp"
#include "apps/search/training/search_folder.hpp"
#include "engine/base/atomic_file.hpp"
#include "engine/base/counted.hpp"

namespace keelson::search {
namespace {

struct CompareOptions {
  std::vector<std::string> folders, methods = {"evolution", "ageing", "random"}, also;
  std::int64_t seeds = 100, networks = 200, first_epochs = 0;
  int workers = 8, eta = 4;
  std::string out, html;
};

/// Curves of other programs: {"METHOD": [[regret after each training], ...]}, a list for each seed.
std::map<std::string, Runs> read_curves(const std::string& path) {
  std::ifstream file(path);
  const auto all = nlohmann::json::parse(file, nullptr, false);
  if (!all.is_object()) refuse("--also {}: must be a JSON object of methods, each a list of curves", path);
  std::map<std::string, Runs> runs;
  for (const auto& [method, curves] : all.items())
    for (const auto& curve : curves) runs[method].push_back({{}, curve.get<std::vector<double>>()});
  return runs;
}

void print(const Comparison& c) {
  fmt::print("{:>12} {:>10} {:>12} {:>12} {:>12} {:>16}\n", "method", "mean rank", "regret: 25 %", "median", "75 %",
             "trainings needed");
  for (const MethodSummary& m : c.methods)
    fmt::print("{:>12} {:>10.2f} {:>12.5f} {:>12.5f} {:>12.5f} {:>16}\n", m.name, m.mean_rank, m.regret[0], m.regret[1],
               m.regret[2], m.needed ? fmt::format("{:.0f}", *m.needed) : "-");
  fmt::print("trainings needed: to the median regret at which {} ends after {}\n", c.baseline,
             counted(c.trainings, "training"));
  for (const PairTest& t : c.tests)
    fmt::print("{} against {}: better for {} of {} seeds; Wilcoxon's signed-rank test, by Holm: p = {:.2g}\n", t.a, t.b,
               t.better, t.seeds, t.p);
}

app::plot::Plot plot_of(const Comparison& c) {
  app::plot::Plot plot{
      "Regret over trainings: median and quartiles over seeds", {"trainings"}, {"regret", true}, {}, 860, 420};
  for (std::size_t k = 0; k < c.methods.size(); ++k) {
    const MethodSummary& m = c.methods[k];
    for (std::size_t q = 0; q < 3; ++q) {
      app::plot::Series s{q == 1 ? m.name : "",    {},     {},    app::plot::Series::Mark::line,
                          static_cast<int>(k % 6), q != 1, q != 1};
      for (std::size_t n = 0; n < m.course.size(); ++n) {
        s.x.push_back(static_cast<double>(n + 1));
        s.y.push_back(m.course[n][q]);
      }
      plot.series.push_back(s);
    }
  }
  return plot;
}

void write_page(const std::string& path, const Comparison& c, const Table& table) {
  std::string rows;
  for (const MethodSummary& m : c.methods)
    rows += fmt::format("<tr><td>{}</td><td>{:.2f}</td><td>{:.5f}</td><td>{:.5f}</td><td>{:.5f}</td><td>{}</td></tr>\n",
                        m.name, m.mean_rank, m.regret[0], m.regret[1], m.regret[2],
                        m.needed ? fmt::format("{:.0f}", *m.needed) : "-");
  write_atomically(
      path,
      fmt::format(
          "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Search methods</title>\n<style>{}</style>"
          "<body><main>\n<h1>Search methods on a table</h1>\n<p>{} networks; {} seeds; regret: the best loss so far "
          "minus the least of the table, {:.5f}.</p>\n{}<table><tr><th>method</th><th>mean rank</th><th>25 %</th>"
          "<th>median</th><th>75 %</th><th>trainings needed</th></tr>\n{}</table></main></body></html>\n",
          app::report_style, table.size(), c.seeds, table.best_loss(), app::plot::svg(plot_of(c)), rows),
      Target::output);
}

ExitCode compare(const CompareOptions& o) {
  if (o.folders.size() != 1) refuse("compare: give the folder of one search by the method grid");
  const ReadSearch grid(o.folders[0]);
  const Table table(grid.population());
  std::map<std::string, Runs> runs;
  for (const auto& method : o.methods) {
    Settings s = table.settings();
    s.method = method;
    s.first_epochs = o.first_epochs > 0 ? static_cast<double>(o.first_epochs) : s.epochs;
    s.eta = o.eta;
    for (std::int64_t seed = 1; seed <= o.seeds; ++seed) {
      s.seed = static_cast<std::uint64_t>(seed);
      runs[method].push_back(search_on(table, s, o.workers, {.networks = o.networks}));
    }
  }
  for (const auto& path : o.also) runs.merge(read_curves(path));
  const Comparison c = compare_runs(runs, "random");
  print(c);
  if (!o.html.empty()) {
    write_page(o.html, c, table);
    fmt::print("page: {}\n", o.html);
  }
  return ExitCode::done;
}

}  // namespace

void define_compare(app::CommandLine& line) {
  auto o = std::make_shared<CompareOptions>();
  app::Subcommand& v =
      line.subcommand("compare", "Compare methods on the results of a grid, by a simulated clock, without training",
                      [o](app::Launch& launch) { return launch.world.rank() == 0 ? compare(*o) : ExitCode::done; });
  v.positional("folder", o->folders, "Folder of a search by the method grid", "DIR");
  v.option("--method", o->methods, "Methods to compare", "NAME,...").comma_separated();
  v.option_without_default(
       "--also", o->also, "JSON files with curves of other programs: {\"METHOD\": [[regret after each training], ...]}",
       "FILE,...")
      .comma_separated();
  v.option("--seeds", o->seeds, "Searches by each method", "N").positive();
  v.option("--networks", o->networks, "Networks of each search", "N").positive();
  v.option("--workers", o->workers, "Simulated workers", "N").positive();
  v.option("--first-epochs", o->first_epochs, "As of run; 0: no early stopping", "N").non_negative();
  v.option("--eta", o->eta, "As of run", "N").between(2, 64);
  v.option_without_default("--html", o->html, "Page with the curves", "FILE").output();
}

}  // namespace keelson::search
