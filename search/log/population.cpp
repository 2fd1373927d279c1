#include "search/log/population.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/base/error.hpp"
#include "search/log/lines.hpp"
#include "search/log/pareto.hpp"

namespace keelson::search {
namespace {

constexpr int most_attempts = 2;  // of a training that was lost

}  // namespace

Individual* Population::known(std::int64_t id) {
  return id >= 0 && id < std::ssize(all_) ? &all_[static_cast<std::size_t>(id)] : nullptr;
}

const Individual* Population::find(const std::string& key) const {
  const auto found = ids_.find(key);
  return found == ids_.end() ? nullptr : &all_[static_cast<std::size_t>(found->second)];
}

void Population::run(Individual& i, double since) {
  i.since = since;
  i.running = true;
  i.orphaned = false;
  running_.insert(i.id);
}

void Population::stop(Individual& i) {
  i.running = i.orphaned = false;
  running_.erase(i.id);
}

void Population::apply(const std::string& json) {
  const Line line(json);
  ++seen_;
  const std::string type = line.text("type");
  if (!begun()) {
    if (type != "search") return;
    settings_ = Settings::parse(json);
    of_rung_.resize(static_cast<std::size_t>(settings_->rungs()));
    seconds_of_rung_.resize(of_rung_.size());
    return;
  }
  if (type == "start") {
    workers_ = static_cast<int>(line.whole("workers"));
    for (const std::int64_t id : running_) known(id)->orphaned = true;
  } else if (type == "birth") {
    begin_birth(json);
  } else if (type == "run") {
    begin_run(json);
  } else if (type == "result") {
    end_run(json);
  } else if (type == "failure") {
    end_in_failure(json);
  }
}

void Population::begin_birth(const std::string& json) {
  const Line line(json);
  if (const auto most = line.whole("most"); most > 0 && std::ssize(all_) >= most) return;  // others began the last ones
  Individual i = parse_birth(line, settings_->space);
  i.id = std::ssize(all_);
  if (settings_->trains_population()) {
    if (line.whole("member") != i.id) return;  // another worker has begun this member before
    i.key = member_key(i.id);
    i.intervals.push_back({.training = i.genome.training});
  }
  if (!ids_.emplace(i.key, i.id).second) return;  // another worker has begun to train the same network before
  i.cost = cost_of(i.genome, settings_->space);
  all_.push_back(std::move(i));
  run(all_.back(), all_.back().since);
}

void Population::begin_run(const std::string& json) {
  const Line line(json);
  Individual* i = known(line.whole("id"));
  const auto rung = static_cast<int>(line.whole("rung")), attempt = static_cast<int>(line.whole("attempt"));
  if (i == nullptr || !i->failure.empty()) return;
  const bool next_rung = !i->running && rung == std::ssize(i->results) && attempt == 0;
  const bool again = i->running && rung == i->rung && attempt == i->attempt + 1;
  if (!next_rung && !again) return;  // another worker was first
  if (next_rung && settings_->trains_population() && !begin_interval(*i, json)) return;
  i->rung = rung;
  i->attempt = attempt;
  i->worker = static_cast<int>(line.whole("slot"));
  run(*i, line.number("time"));
}

bool Population::begin_interval(Individual& i, const std::string& json) const {
  Interval next = parse_interval(Line(json), settings_->space);
  next.partner = next.partner < std::ssize(all_) ? next.partner : -1;
  if (next.source < 0 || next.source >= std::ssize(all_) || next.source_rung < 0) return false;
  if (next.partner >= 0 && std::ssize(all_[static_cast<std::size_t>(next.partner)].results) <= next.source_rung)
    return false;  // lines were lost
  const Individual& source = all_[static_cast<std::size_t>(next.source)];
  const auto newest = static_cast<int>(std::ssize(source.results)) - 1;
  // Checkpoints that are older than the two newest are removed. A worker that was slow decides again.
  if (next.source_rung > newest || next.source_rung + 1 < newest) return false;
  i.genome.training = next.training;
  i.intervals.push_back(next);
  return true;
}

/// Of ltfb: the better model, with its training, is the member's now.
void Population::end_interval(Individual& i, const Result& result) const {
  Interval& interval = i.intervals.back();
  if (!result.tournament || interval.partner < 0 || !(result.tournament->second < result.tournament->first)) return;
  const Individual& partner = all_[static_cast<std::size_t>(interval.partner)];
  interval.source = partner.id;
  interval.training = partner.intervals[static_cast<std::size_t>(interval.source_rung)].training;
  i.genome.training = interval.training;
}

void Population::end_run(const std::string& json) {
  const Line line(json);
  Individual* i = known(line.whole("id"));
  const Result result = parse_result(line);
  if (i == nullptr || result.rung != std::ssize(i->results) || result.rung >= settings_->rungs() || !i->failure.empty())
    return;
  // The line that began this interval was lost: nobody knows how it began.
  if (settings_->trains_population() && i->intervals.size() != i->results.size() + 1) return;
  if (const Result* before = i->last()) by_loss_.erase({before->loss, i->id});
  if (settings_->trains_population()) end_interval(*i, result);
  i->results.push_back(result);
  by_loss_.emplace(result.loss, i->id);
  const auto rung = static_cast<std::size_t>(result.rung);
  of_rung_[rung].emplace(result.loss, i->id);
  auto& seconds = seconds_of_rung_[settings_->trains_population() ? 0 : rung];  // intervals are equally long
  seconds.insert(std::upper_bound(seconds.begin(), seconds.end(), result.seconds), result.seconds);
  stop(*i);
}

void Population::end_in_failure(const std::string& json) {
  const Line line(json);
  Individual* i = known(line.whole("id"));
  if (i == nullptr || !i->running || line.whole("rung") != i->rung) return;
  if (line.flag("again") && i->attempt + 1 < most_attempts) {
    i->orphaned = true;
    return;
  }
  i->failure = line.text("reason");
  if (const Result* before = i->last()) by_loss_.erase({before->loss, i->id});
  stop(*i);
}

std::vector<double> Population::values_of(const Individual& i) const {
  std::vector<double> values;
  for (const Objective o : settings_->objectives) switch (o) {
      case Objective::loss:
        values.push_back(i.last()->loss);
        break;
      case Objective::parameters:
        values.push_back(std::log(static_cast<double>(i.cost.parameters)));
        break;
      case Objective::flops:
        values.push_back(std::log(i.cost.flops));
        break;
      case Objective::time:
        values.push_back(std::log(std::max(i.last()->step_ms, 1e-6)));
        break;
    }
  return values;
}

std::vector<std::vector<double>> Population::points_of(const std::vector<std::int64_t>& ids) const {
  std::vector<std::vector<double>> points;
  for (const std::int64_t id : ids) points.push_back(values_of(all_[static_cast<std::size_t>(id)]));
  return points;
}

std::vector<std::int64_t> Population::best(std::size_t most) const {
  const bool one = settings_->objectives == std::vector{Objective::loss};
  std::vector<std::int64_t> ids;
  for (auto i = by_loss_.begin(); i != by_loss_.end() && (!one || ids.size() < most); ++i) ids.push_back(i->second);
  if (one) return ids;
  std::vector<std::int64_t> best_first;
  for (const std::size_t k : pareto_order(points_of(ids)).order) best_first.push_back(ids[k]);
  best_first.resize(std::min(best_first.size(), most));
  return best_first;
}

std::vector<std::int64_t> Population::front() const {
  if (settings_->objectives.size() == 1) return best(1);
  const auto ids = best(all_.size());
  const auto fronts = pareto_order(points_of(ids)).front;
  std::vector<std::int64_t> first;
  for (std::size_t k = 0; k < ids.size(); ++k)
    if (fronts[k] == 0) first.push_back(ids[k]);
  return first;
}

std::optional<std::int64_t> Population::promotable() const {
  for (int rung = settings_->rungs() - 2; rung >= 0; --rung) {
    const auto k = static_cast<std::size_t>(rung);
    auto left = of_rung_[k].size();
    if (settings_->method != "grid") left /= static_cast<std::size_t>(settings_->eta);
    for (auto r = of_rung_[k].begin(); left > 0; ++r, --left) {
      const Individual& i = all_[static_cast<std::size_t>(r->second)];
      if (i.results.size() == k + 1 && !i.running && i.failure.empty()) return i.id;
    }
  }
  return std::nullopt;
}

double Population::lease(int rung) const {
  const auto& seconds = seconds_of_rung_[settings_->trains_population() ? 0 : static_cast<std::size_t>(rung)];
  constexpr std::size_t least = 5;
  if (seconds.size() < least) return std::numeric_limits<double>::infinity();
  return std::max(settings_->least_lease,
                  3 * seconds[static_cast<std::size_t>(0.95 * static_cast<double>(seconds.size() - 1))]);
}

std::optional<std::int64_t> Population::lost(double now) const {
  for (const std::int64_t id : running_) {
    const Individual& i = all_[static_cast<std::size_t>(id)];
    if (i.orphaned || now - i.since > lease(i.rung)) return id;
  }
  return std::nullopt;
}

int Settings::rungs() const {
  if (trains_population()) return static_cast<int>(std::ceil(epochs / population.interval));
  int n = 1;
  for (double e = first_epochs; e < epochs; e *= eta) ++n;
  return n;
}

double Settings::epochs_of(int rung) const {
  return std::min(epochs, trains_population() ? population.interval * (rung + 1) : first_epochs * std::pow(eta, rung));
}

}  // namespace keelson::search
