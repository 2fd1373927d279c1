#include "search/run/job.hpp"

#include "search/method/population_training.hpp"

namespace keelson::search {
namespace {

const Individual& network_of_job(const Population& population, std::int64_t id) {
  return population.all()[static_cast<std::size_t>(id)];
}

/// A rung of a network that was trained before.
Job job_of(const Individual& i, int rung, int attempt, std::string line) {
  return {Job::Kind::train, std::move(line), rung, attempt, i.key};
}

std::optional<Job> new_network(const Population& population, const Method& method, int slot, std::int64_t most,
                               double now) {
  if (most > 0 && std::ssize(population.all()) >= most) return std::nullopt;
  const auto next = next_individual(population, method, slot);
  if (!next) return std::nullopt;
  return job_of(*next, 0, 0, birth_line(*next, population.settings().space, most, now));
}

/// A network that was begun trains its next rung.
std::optional<Job> next_rung(const Population& population, int slot, double now) {
  const bool together = population.settings().trains_population();
  const auto id = together ? next_member(population) : population.promotable();
  if (!id) return std::nullopt;
  const Individual& i = network_of_job(population, *id);
  const auto rung = static_cast<int>(std::ssize(i.results));
  return job_of(i, rung, 0,
                together ? interval_line(*id, rung, next_interval(population, i), population.seen(), slot,
                                         population.settings().space, now)
                         : run_line(*id, rung, 0, slot, now));
}

}  // namespace

Job next_job(const Population& population, const Method& method, int slot, const Budget& budget, double now) {
  const Settings& settings = population.settings();
  if (budget.until > 0 && now >= budget.until) return {};
  if (const auto lost = population.lost(now)) {
    const Individual& i = network_of_job(population, *lost);
    return job_of(i, i.rung, i.attempt + 1, run_line(*lost, i.rung, i.attempt + 1, slot, now));
  }
  // All members of a population begin before any of them goes on.
  if (settings.trains_population())
    if (auto member = new_network(population, method, slot, settings.population.members, now)) return *member;
  if (auto rung = next_rung(population, slot, now)) return *rung;
  if (!settings.trains_population())
    if (auto network = new_network(population, method, slot, budget.networks, now)) return *network;
  return {population.running() > 0 ? Job::Kind::wait : Job::Kind::done};
}

std::optional<std::int64_t> claimed(const Population& population, const Job& job, int slot) {
  const Individual* i = population.find(job.key);
  const bool mine = i != nullptr && i->running && !i->orphaned && i->rung == job.rung && i->attempt == job.attempt &&
                    i->worker == slot;
  return mine ? std::optional(i->id) : std::nullopt;
}

}  // namespace keelson::search
