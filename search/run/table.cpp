#include "search/run/table.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/base/error.hpp"

namespace keelson::search {

Table::Table(Population grid) : grid_(std::move(grid)), best_(std::numeric_limits<double>::infinity()) {
  if (settings().method != "grid")
    refuse("a search by {} is no table: keelson-search run --method grid makes one", settings().method);
  const auto rungs = static_cast<std::size_t>(settings().rungs());
  std::size_t complete = 0;
  for (const Individual& i : grid_.all()) {
    if (i.results.size() < rungs && i.failure.empty()) continue;
    ++complete;
    if (i.results.size() == rungs) best_ = std::min(best_, i.results.back().loss);
  }
  const std::size_t all = Grid(settings().space).genomes().size();
  if (complete < all)
    refuse("the table is not complete: {} of {} networks are trained; keelson-search resume goes on", complete, all);
}

const Individual& Table::find(const std::string& key) const {
  const Individual* found = grid_.find(key);
  if (found == nullptr) refuse("the table has no such genome: {}", key);
  return *found;
}

Result Table::result_of(const Individual& individual, int rung, const Settings& s) const {
  const Individual& row = find(individual.key);
  const double from = rung == 0 ? 0 : s.epochs_of(rung - 1), to = s.epochs_of(rung);
  Result result{.rung = rung, .loss = std::numeric_limits<double>::max()};  // of a network that failed
  bool reached = false;
  for (int k = 0; k < settings().rungs(); ++k) {
    const double epochs = settings().epochs_of(k);
    reached |= epochs == to;
    if (epochs <= from || epochs > to || static_cast<std::size_t>(k) >= row.results.size()) continue;
    const Result& r = row.results[static_cast<std::size_t>(k)];
    result.seconds += r.seconds;
    if (epochs != to) continue;
    result.loss = r.loss;
    result.metric = r.metric;
    result.step_ms = r.step_ms;
  }
  if (!reached) refuse("the table has no results after {:g} epochs", to);
  return result;
}

Course search_on(const Table& table, const Settings& settings, int workers, const Budget& budget) {
  if (is_population_method(settings.method))
    refuse("{} trains the members of a population together; a table has networks that were trained alone",
           settings.method);
  const auto method = make_method(settings);
  const auto search = search_virtually(settings, *method, workers, budget, [&](const Individual& i, int rung) {
    return table.result_of(i, rung, settings);
  });
  Course course;
  double least = std::numeric_limits<double>::infinity();
  for (const VirtualTraining& t : search.trainings) {
    if (t.rung != settings.rungs() - 1) continue;
    least = std::min(least, t.result.loss);
    course.seconds.push_back(t.end);
    course.regret.push_back(least - table.best_loss());
  }
  if (course.regret.empty())
    refuse("a search by {} has trained no network to the end: let it train more networks, or without early stopping",
           settings.method);
  return course;
}

}  // namespace keelson::search
