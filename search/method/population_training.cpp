#include "search/method/population_training.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/base/error.hpp"

namespace keelson::search {
namespace {

const Individual& member_of(const Population& population, std::int64_t id) {
  return population.all()[static_cast<std::size_t>(id)];
}

bool exchanges_winners(const Settings& settings) { return settings.method == "ltfb"; }

/// Whether the partner of the tournament before a rung need not be waited for.
bool partner_has_come(const Population& population, std::int64_t partner, int rung) {
  if (partner < 0) return true;
  if (partner >= std::ssize(population.all())) return false;
  const Individual& other = member_of(population, partner);
  return std::ssize(other.results) >= rung || !other.failure.empty();
}

Interval exploited(const Population& population, const Individual& member) {
  const auto rung = static_cast<int>(std::ssize(member.results)) - 1;
  Interval next{.source = member.id, .source_rung = rung, .training = member.genome.training};
  std::vector<std::pair<double, std::int64_t>> sorted;
  for (const Individual& i : population.all())
    if (i.failure.empty() && std::ssize(i.results) > rung) sorted.emplace_back(i.last()->loss, i.id);
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size(), k = std::min((n + 3) / 4, n / 2);
  const auto own = std::find(sorted.begin(), sorted.end(), std::pair(member.last()->loss, member.id));
  const auto place = static_cast<std::size_t>(own - sorted.begin());
  if (place < n - k || k == 0) return next;
  const Individual& better = member_of(population, sorted[place % k].second);
  Draws draws({population.settings().seed, philox::stream_of("exploit"),
               static_cast<std::uint64_t>(member.id) << 24 | static_cast<std::uint64_t>(rung)});
  next.source = better.id;
  next.source_rung = static_cast<int>(std::ssize(better.results)) - 1;
  // What the better member may train now has no result yet: its weights are those of the interval before.
  const TrainingPart& training = better.intervals[static_cast<std::size_t>(next.source_rung)].training;
  Genome genome = member.genome;
  genome.training = perturbed(training, population.settings().space, draws);
  next.training = repaired(genome, population.settings().space).training;
  return next;
}

/// Whether a choice of the momentum is none.
bool is_zero(const Gene& gene, int value) { return gene.number(value) == 0; }

}  // namespace

std::optional<Child> Members::make_child(const Population& population, Draws& draws, int /*trial*/) const {
  const Settings& settings = population.settings();
  Genome genome = design_of(settings);
  if (population.all().empty() && settings.start) return Child{genome, {}, "given"};
  for (std::size_t g = 0; g < settings.space.training.size(); ++g)
    genome.training[g] = static_cast<int>(draws.below(settings.space.training[g].choices.size()));
  return Child{genome, {}, "random"};
}

std::optional<Genome> only_design(const Space& space) {
  if (space.least_stages != space.most_stages || space.least_dense != space.most_dense) return std::nullopt;
  Genome genome;
  genome.stages.resize(space.least_stages);
  genome.dense.resize(space.least_dense);
  const Genome first = repaired(genome, space);
  // Genes that make no difference, such as the depth of a kernel for images, may have any number of choices.
  const auto matters = [&](auto& part, const std::vector<Gene>& genes) {
    for (std::size_t g = 0; g < genes.size(); ++g)
      for (int value = 1; value < static_cast<int>(genes[g].choices.size()); ++value) {
        const int before = std::exchange(part[g], value);
        const bool differs = repaired(genome, space) != first;
        part[g] = before;
        if (differs) return true;
      }
    return false;
  };
  for (Stage& s : genome.stages)
    if (matters(s, space.stage)) return std::nullopt;
  for (DenseLayer& d : genome.dense)
    if (matters(d, space.dense)) return std::nullopt;
  return first;
}

Genome design_of(const Settings& settings) {
  if (settings.start) return *settings.start;
  if (auto design = only_design(settings.space)) return *design;
  refuse(
      "the method {} trains one network: give its genome as start, or leave one choice for each gene of stages and "
      "dense "
      "layers, and for their numbers, in the space",
      settings.method);
}

std::optional<std::int64_t> next_member(const Population& population) {
  const Settings& settings = population.settings();
  std::optional<std::int64_t> next;
  for (const Individual& i : population.all()) {
    const auto rung = static_cast<int>(std::ssize(i.results));
    if (i.running || !i.failure.empty() || rung == 0 || rung >= settings.rungs()) continue;
    if (next && std::ssize(member_of(population, *next).results) <= rung) continue;
    const std::int64_t partner = exchanges_winners(settings) ? ltfb_partner(settings, rung, i.id) : -1;
    if (partner_has_come(population, partner, rung)) next = i.id;
  }
  return next;
}

Interval next_interval(const Population& population, const Individual& member) {
  const Settings& settings = population.settings();
  KEELSON_EXPECT(member.last() != nullptr);
  if (!exchanges_winners(settings)) return exploited(population, member);
  const auto rung = static_cast<int>(std::ssize(member.results));
  Interval next{.source = member.id, .source_rung = rung - 1, .training = member.genome.training};
  const std::int64_t partner = ltfb_partner(settings, rung, member.id);
  const bool is_there = partner >= 0 && partner < std::ssize(population.all());
  if (is_there && std::ssize(member_of(population, partner).results) >= rung) next.partner = partner;
  return next;
}

TrainingPart perturbed(TrainingPart training, const Space& space, Draws& draws) {
  constexpr double resampled = 0.25;
  constexpr auto optimizer = static_cast<std::size_t>(TrainingGene::optimizer);
  for (std::size_t g = 0; g < space.training.size(); ++g) {
    const Gene& gene = space.training[g];
    const auto choices = static_cast<int>(gene.choices.size());
    // The same numbers are drawn for each gene, whatever comes of them.
    const bool anew = draws.happens(resampled), up = draws.happens(0.5);
    const auto drawn = static_cast<int>(draws.below(gene.choices.size()));
    if (g == optimizer) continue;
    int value = training[g];
    if (anew)
      value = drawn;
    else if (gene.ordered)
      value = std::clamp(value + (up ? 1 : -1), 0, choices - 1);
    const bool momentum = g == static_cast<std::size_t>(TrainingGene::momentum);
    if (!momentum || is_zero(gene, value) == is_zero(gene, training[g])) training[g] = value;
  }
  return training;
}

std::int64_t ltfb_partner(const Settings& settings, int rung, std::int64_t member) {
  if (rung == 0) return -1;
  const auto members = static_cast<std::size_t>(settings.population.members);
  std::vector<std::int64_t> order(members);
  std::iota(order.begin(), order.end(), std::int64_t{0});
  Draws draws({settings.seed, philox::stream_of("partners"), static_cast<std::uint64_t>(rung)});
  for (std::size_t i = members; i > 1; --i) std::swap(order[i - 1], order[draws.below(i)]);  // Fisher, Yates
  const auto place = static_cast<std::size_t>(std::find(order.begin(), order.end(), member) - order.begin());
  const std::size_t other = place ^ 1;
  return other < members ? order[other] : -1;
}

bool may_be_source(const Population& population, const Individual& member, int rung) {
  const Settings& settings = population.settings();
  const auto newest = static_cast<int>(std::ssize(member.results)) - 1;
  const bool ltfb = exchanges_winners(settings);
  if (rung >= newest - (ltfb ? 0 : 1)) return true;
  if (ltfb) {
    const std::int64_t partner = ltfb_partner(settings, rung + 1, member.id);
    if (partner < 0) return false;
    if (partner >= std::ssize(population.all())) return true;
    const Individual& other = member_of(population, partner);
    return other.failure.empty() && std::ssize(other.results) <= rung + 1;
  }
  return std::ranges::any_of(population.all(), [&](const Individual& i) {
    const Interval& now = i.intervals.back();
    return i.running && now.source == member.id && now.source_rung == rung;
  });
}

}  // namespace keelson::search
