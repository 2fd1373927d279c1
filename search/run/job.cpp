#include "search/run/job.hpp"

namespace keelson::search {

Job next_job(const Population& population, const Method& method, int slot, const Budget& budget, double now) {
  const Settings& settings = population.settings();
  if (budget.until > 0 && now >= budget.until) return {};
  const auto train = [&](const Individual& i, int rung, int attempt, std::string line) {
    return Job{Job::Kind::train, std::move(line), rung, attempt, i.key};
  };
  const auto again = [&](std::int64_t id, bool lost) {
    const Individual& i = population.all()[static_cast<std::size_t>(id)];
    const int rung = lost ? i.rung : i.rung + 1, attempt = lost ? i.attempt + 1 : 0;
    return train(i, rung, attempt, run_line(id, rung, attempt, slot, now));
  };
  if (const auto lost = population.lost(now)) return again(*lost, true);
  if (const auto promoted = population.promotable()) return again(*promoted, false);
  if (budget.networks == 0 || std::ssize(population.all()) < budget.networks)
    if (const auto next = next_individual(population, method, slot))
      return train(*next, 0, 0, birth_line(*next, settings.space, budget.networks, now));
  return {population.running() > 0 ? Job::Kind::wait : Job::Kind::done};
}

std::optional<std::int64_t> claimed(const Population& population, const Job& job, int slot) {
  const Individual* i = population.find(job.key);
  const bool mine = i != nullptr && i->running && !i->orphaned && i->rung == job.rung && i->attempt == job.attempt &&
                    i->worker == slot;
  return mine ? std::optional(i->id) : std::nullopt;
}

}  // namespace keelson::search
