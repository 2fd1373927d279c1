#include "search/method/method.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/error.hpp"
#include "search/log/lines.hpp"
#include "search/method/population_training.hpp"

namespace keelson::search {
namespace {

std::size_t population_size(const Population& population) {
  constexpr std::size_t least = 8;
  return std::max<std::size_t>(least, 2 * static_cast<std::size_t>(population.workers()));
}

const Individual& individual(const Population& population, std::int64_t id) {
  return population.all()[static_cast<std::size_t>(id)];
}

Child random_child(const Population& population, Draws& draws) {
  return {random_genome(population.settings().space, draws), {}, "random"};
}

}  // namespace

std::optional<Child> RandomSearch::make_child(const Population& population, Draws& draws, int /*trial*/) const {
  return random_child(population, draws);
}

std::optional<Child> Evolution::make_child(const Population& population, Draws& draws, int /*trial*/) const {
  const Space& space = population.settings().space;
  const std::size_t size = population_size(population);
  if (population.all().size() < size) {
    const auto& start = population.settings().start;
    if (!start) return random_child(population, draws);
    if (population.all().empty()) return Child{*start, {}, "given"};
    return Child{mutated(*start, space, rates, draws), {0}, "mutation"};
  }
  const std::size_t best = std::min(size, static_cast<std::size_t>(population.with_results()));
  if (best == 0 || draws.happens(rates.random)) return random_child(population, draws);
  const bool tournament = population.settings().objectives.size() > 1;
  const auto parent = [&] {
    const std::size_t a = draws.below(best);
    return population.at_place(tournament ? std::min(a, draws.below(best)) : a);
  };
  const std::int64_t a = parent();
  Child child{individual(population, a).genome, {a}, "mutation"};
  if (draws.happens(rates.crossover)) {
    const std::int64_t b = parent();
    if (b != a) {
      child.parents.push_back(b);
      child.origin = "crossover, mutation";
      child.genome = crossover(child.genome, individual(population, b).genome, space, draws);
    }
  }
  child.genome = mutated(std::move(child.genome), space, rates, draws);
  return child;
}

std::optional<Child> Ageing::make_child(const Population& population, Draws& draws, int /*trial*/) const {
  const std::size_t size = population_size(population);
  if (population.all().size() < size) return random_child(population, draws);
  std::vector<std::int64_t> living;  // the newest that have results
  for (std::int64_t id = std::ssize(population.all()) - 1; id >= 0 && living.size() < size; --id)
    if (individual(population, id).last() != nullptr && individual(population, id).failure.empty())
      living.push_back(id);
  if (living.empty()) return random_child(population, draws);
  std::int64_t parent = living[draws.below(living.size())];
  const auto loss = [&](std::int64_t id) { return individual(population, id).last()->loss; };
  const std::size_t sample = std::max<std::size_t>(2, size / 4);
  for (std::size_t i = 1; i < sample; ++i) {
    const std::int64_t other = living[draws.below(living.size())];
    if (loss(other) < loss(parent)) parent = other;
  }
  return Child{
      mutated(individual(population, parent).genome, population.settings().space, rates, draws), {parent}, "mutation"};
}

std::vector<std::string> method_names() { return {"evolution", "ageing", "random", "grid", "pbt", "ltfb"}; }

bool is_population_method(const std::string& name) { return name == "pbt" || name == "ltfb"; }

std::unique_ptr<Method> make_method(const Settings& settings) {
  const std::string& name = settings.method;
  if (is_population_method(name) != settings.trains_population())
    refuse("the method {} does not go with {} members of a population", name, settings.population.members);
  if (name == "evolution") return std::make_unique<Evolution>();
  if (name == "ageing") return std::make_unique<Ageing>();
  if (name == "random") return std::make_unique<RandomSearch>();
  if (name == "grid") return std::make_unique<Grid>(settings.space);
  if (name == "tpe") refuse("the method tpe is that of Python's package optuna, and works in keelson.search alone");
  if (is_population_method(name)) {
    design_of(settings);
    return std::make_unique<Members>();
  }
  std::string all;
  for (const auto& n : method_names()) all += (all.empty() ? "" : ", ") + n;
  refuse("no method \"{}\"; there are {}", name, all);
}

Genome parse_start(const std::string& json, const Settings& settings) {
  if (settings.method != "evolution" && !is_population_method(settings.method))
    refuse("the method {} begins with random networks; evolution, pbt and ltfb take a genome to begin with",
           settings.method);
  Genome start = repaired(parse_genome(json, settings.space), settings.space);
  if (const auto why = over_limit(cost_of(start, settings.space), settings.space); !why.empty())
    refuse("the network to begin with has {}: set \"limits\" in the space", why);
  return start;
}

std::optional<Individual> next_individual(const Population& population, const Method& method, int slot) {
  const Settings& settings = population.settings();
  // The members of a population are the same whoever makes them.
  const auto what = settings.trains_population()
                        ? static_cast<std::uint64_t>(population.all().size())
                        : static_cast<std::uint64_t>(population.seen()) << 24 | static_cast<std::uint64_t>(slot);
  Draws draws({settings.seed, philox::stream_of("birth"), what});
  constexpr int most_trials = 500;
  for (int trial = 0; trial < most_trials; ++trial) {
    const auto child = method.make_child(population, draws, trial);
    if (!child) return std::nullopt;
    Individual i;
    i.genome = repaired(child->genome, settings.space);
    i.id = std::ssize(population.all());
    i.key = settings.trains_population() ? member_key(i.id) : to_json(i.genome, settings.space);
    if (settings.trains_population()) i.intervals.push_back({.training = i.genome.training});
    if (population.find(i.key) != nullptr) continue;
    i.cost = cost_of(i.genome, settings.space);
    if (!over_limit(i.cost, settings.space).empty()) continue;
    i.parents = child->parents;
    i.origin = child->origin;
    i.seen = population.seen();
    i.slot = slot;
    return i;
  }
  return std::nullopt;
}

}  // namespace keelson::search
