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

void Population::run(Individual& i, int rung, double since) {
  stop(i);
  if (const Result* last = i.last()) waiting_[static_cast<std::size_t>(last->rung)].erase({last->loss, i.id});
  i.rung = rung;
  i.since = since;
  i.running = true;
  running_.insert(i.id);
  began_[lease_group(rung)].emplace(since, i.id);
}

void Population::stop(Individual& i) {
  began_[lease_group(i.rung)].erase({i.since, i.id});
  running_.erase(i.id);
  orphaned_.erase(i.id);
  i.running = i.orphaned = false;
}

void Population::orphan(Individual& i) {
  i.orphaned = true;
  orphaned_.insert(i.id);
}

void Population::apply(const std::string& json) {
  const Line line(json);
  ++seen_;
  const std::string type = line.text("type");
  if (!begun()) {
    if (type != "search") return;
    settings_ = Settings::parse(json);
    for (auto* sets : {&began_, &waiting_}) sets->resize(static_cast<std::size_t>(settings_->rungs()));
    of_rung_.resize(waiting_.size());
    seconds_of_rung_.resize(waiting_.size());
    return;
  }
  if (type == "start") {
    workers_ = static_cast<int>(line.whole("workers"));
    for (const std::int64_t id : running_) orphan(*known(id));
  } else if (type == "birth") {
    begin_birth(line);
  } else if (type == "run") {
    begin_run(line);
  } else if (type == "result") {
    end_run(line);
  } else if (type == "failure") {
    end_in_failure(line);
  }
}

void Population::begin_birth(const Line& line) {
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
  run(all_.back(), 0, all_.back().since);
}

void Population::begin_run(const Line& line) {
  Individual* i = known(line.whole("id"));
  const auto rung = static_cast<int>(line.whole("rung")), attempt = static_cast<int>(line.whole("attempt"));
  if (i == nullptr || !i->failure.empty() || rung >= settings_->rungs()) return;
  const bool next_rung = !i->running && rung == std::ssize(i->results) && attempt == 0;
  const bool again = i->running && rung == i->rung && attempt == i->attempt + 1;
  if (!next_rung && !again) return;  // another worker was first
  if (next_rung && settings_->trains_population() && !begin_interval(*i, line)) return;
  i->attempt = attempt;
  i->worker = static_cast<int>(line.whole("slot"));
  run(*i, rung, line.number("time"));
}

bool Population::begin_interval(Individual& i, const Line& line) const {
  Interval next = parse_interval(line, settings_->space);
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

void Population::end_run(const Line& line) {
  Individual* i = known(line.whole("id"));
  const Result result = parse_result(line);
  if (i == nullptr || result.rung != std::ssize(i->results) || result.rung >= settings_->rungs() || !i->failure.empty())
    return;
  // The line that began this interval was lost: nobody knows how it began.
  if (settings_->trains_population() && i->intervals.size() != i->results.size() + 1) return;
  if (const Result* before = i->last()) {
    by_loss_.erase({before->loss, i->id});
    waiting_[static_cast<std::size_t>(before->rung)].erase({before->loss, i->id});
  }
  if (settings_->trains_population()) end_interval(*i, result);
  i->results.push_back(result);
  by_loss_.insert({result.loss, i->id});
  pareto_ranking_.reset();
  const auto rung = static_cast<std::size_t>(result.rung);
  of_rung_[rung].insert({result.loss, i->id});
  waiting_[rung].emplace(result.loss, i->id);
  seconds_of_rung_[lease_group(result.rung)].insert(result.seconds);
  stop(*i);
}

void Population::end_in_failure(const Line& line) {
  Individual* i = known(line.whole("id"));
  if (i == nullptr || !i->running || line.whole("rung") != i->rung) return;
  if (line.flag("again") && i->attempt + 1 < most_attempts) {
    orphan(*i);
    return;
  }
  i->failure = line.text("reason");
  if (const Result* before = i->last()) by_loss_.erase({before->loss, i->id});
  pareto_ranking_.reset();
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

const std::vector<std::int64_t>& Population::pareto_ranking() const {
  if (!pareto_ranking_) {
    std::vector<std::int64_t> ids;
    for (const auto& [loss, id] : by_loss_.first(by_loss_.size())) ids.push_back(id);
    pareto_ranking_.emplace();
    for (const std::size_t k : pareto_order(points_of(ids)).order) pareto_ranking_->push_back(ids[k]);
  }
  return *pareto_ranking_;
}

std::vector<std::int64_t> Population::best(std::size_t most) const {
  std::vector<std::int64_t> ids;
  if (has_one_objective()) {
    for (const auto& [loss, id] : by_loss_.first(most)) ids.push_back(id);
    return ids;
  }
  ids = pareto_ranking();
  ids.resize(std::min(ids.size(), most));
  return ids;
}

std::int64_t Population::at_place(std::size_t place) const {
  return has_one_objective() ? by_loss_[place].second : pareto_ranking()[place];
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
    if (waiting_[k].empty()) continue;
    auto promoted = of_rung_[k].size();
    if (settings_->method != "grid") promoted /= static_cast<std::size_t>(settings_->eta);
    const ByLoss& next = *waiting_[k].begin();
    if (of_rung_[k].place_of(next) < promoted) return next.second;
  }
  return std::nullopt;
}

double Population::lease(int rung) const {
  const auto& seconds = seconds_of_rung_[lease_group(rung)];
  constexpr std::size_t least = 5;
  if (seconds.size() < least) return std::numeric_limits<double>::infinity();
  return std::max(settings_->least_lease,
                  3 * seconds[static_cast<std::size_t>(0.95 * static_cast<double>(seconds.size() - 1))]);
}

std::optional<std::int64_t> Population::lost(double now) const {
  std::optional<std::int64_t> least;
  const auto consider = [&](std::int64_t id) { least = least ? std::min(*least, id) : id; };
  if (!orphaned_.empty()) consider(*orphaned_.begin());
  for (std::size_t group = 0; group < began_.size(); ++group) {
    const double longest = lease(static_cast<int>(group));
    for (const auto& [since, id] : began_[group]) {
      if (!(now - since > longest)) break;  // nor the others, which began later
      consider(id);
    }
    if (settings_->trains_population()) break;
  }
  return least;
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
