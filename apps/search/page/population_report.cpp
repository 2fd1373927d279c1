#include "apps/search/page/population_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "apps/common/report/svg_plot.hpp"
#include "search/genome/choices.hpp"

namespace keelson::search {
namespace {

using app::plot::Plot;
using app::plot::Series;

const Individual& member_at(const Population& p, std::int64_t id) { return p.all()[static_cast<std::size_t>(id)]; }

/// What happened before an interval, for people.
std::string beginning_of(const Individual& member, const Interval& interval) {
  if (interval.source < 0) return "new weights";
  if (interval.source != member.id) return fmt::format("weights of member {}", interval.source);
  return interval.partner >= 0 ? fmt::format("won against member {}", interval.partner) : "went on";
}

std::string lineage_row(const Population& p, const Individual& i, std::size_t rung) {
  const Result& r = i.results[rung];
  const Interval& interval = i.intervals[rung];
  return fmt::format("<tr><td>{:g}</td><td>{}</td><td>{}</td><td>{:.5g}</td><td>{}</td></tr>\n",
                     p.settings().epochs_of(r.rung), i.id, beginning_of(i, interval), r.loss,
                     app::plot::escape(training_text(interval.training, p.settings().space)));
}

}  // namespace

std::string training_text(const TrainingPart& training, const Space& space) {
  std::string text;
  for (std::size_t g = 0; g < space.training.size(); ++g)
    text += fmt::format("{}{} {}", g == 0 ? "" : ", ", space.training[g].name,
                        space.training[g].choices[static_cast<std::size_t>(training[g])]);
  return text;
}

std::string population_curves(const Population& p) {
  const Settings& s = p.settings();
  Plot losses{"Loss of each member", {"epochs"}, {"validation loss", true}, {}, 760, 340};
  Plot rates{"Learning rate of each member", {"epochs"}, {"learning rate at the beginning", true}, {}, 760, 300};
  const auto best = p.best(1);
  Series copies{"took over weights", {}, {}, Series::Mark::points, 1};
  for (const Individual& i : p.all()) {
    const bool is_best = !best.empty() && best[0] == i.id;
    Series loss{
        is_best ? fmt::format("member {}, the best", i.id) : "", {}, {}, Series::Mark::line, is_best ? 2 : 0, !is_best},
        rate = loss;
    for (const Result& r : i.results) {
      const Interval& interval = i.intervals[static_cast<std::size_t>(r.rung)];
      const double epochs = s.epochs_of(r.rung);
      loss.x.push_back(epochs);
      loss.y.push_back(r.loss);
      rate.x.push_back(epochs);
      rate.y.push_back(TrainingChoices(interval.training, s.space.training).number(TrainingGene::rate));
      if (interval.source < 0 || interval.source == i.id) continue;
      copies.x.push_back(epochs);
      copies.y.push_back(r.loss);
      copies.titles.push_back(fmt::format("member {}: {}", i.id, beginning_of(i, interval)));
    }
    losses.series.push_back(loss);
    rates.series.push_back(rate);
  }
  losses.series.push_back(copies);
  return app::plot::svg(losses) + app::plot::svg(rates);
}

std::string lineage_of_best(const Population& p) {
  const auto best = p.best(1);
  if (best.empty()) return "";
  std::string rows;
  const Individual* i = &member_at(p, best[0]);
  for (std::int64_t rung = std::ssize(i->results) - 1; rung >= 0;) {
    rows = lineage_row(p, *i, static_cast<std::size_t>(rung)) + rows;
    const Interval& interval = i->intervals[static_cast<std::size_t>(rung)];
    if (interval.source < 0) break;
    i = &member_at(p, interval.source);
    rung = interval.source_rung;
  }
  return "<h2>Lineage of the best</h2>\n<table>\n<tr><th>epochs</th><th>member</th><th>began with</th><th>loss</th>"
         "<th>training</th></tr>\n" +
         rows + "</table>\n";
}

}  // namespace keelson::search
