#include "search/breed/breed.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace keelson::search {
namespace {

template <class Part>
Part random_part(const std::vector<Gene>& genes, Draws& draws) {
  Part part{};
  for (std::size_t i = 0; i < genes.size(); ++i) part[i] = static_cast<int>(draws.below(genes[i].choices.size()));
  return part;
}

int another_value(const Gene& gene, int value, double near, Draws& draws) {
  const auto choices = static_cast<int>(gene.choices.size());
  if (choices == 1) return value;
  if (!gene.ordered) {
    const auto other = static_cast<int>(draws.below(static_cast<std::size_t>(choices) - 1));
    return other < value ? other : other + 1;
  }
  const double step = draws.normal() * near * choices;
  const int whole =
      step < 0 ? std::min(-1, static_cast<int>(std::lround(step))) : std::max(1, static_cast<int>(std::lround(step)));
  const int moved = value + whole;  // turns back at the ends
  return std::clamp(moved < 0 ? -moved : moved >= choices ? 2 * (choices - 1) - moved : moved, 0, choices - 1);
}

template <class Part>
void mutate_part(Part& part, const std::vector<Gene>& genes, const BreedingRates& rates, Draws& draws) {
  for (std::size_t i = 0; i < genes.size(); ++i)
    if (draws.happens(rates.point)) part[i] = another_value(genes[i], part[i], rates.near, draws);
}

/// Inserts, removes, repeats and exchanges parts, within the limits of their number.
template <class Part>
void mutate_structure(std::vector<Part>& parts, const std::vector<Gene>& genes, std::size_t least, std::size_t most,
                      double rate, Draws& draws) {
  const auto place = [&](std::size_t n) { return static_cast<std::ptrdiff_t>(draws.below(n)); };
  if (draws.happens(rate) && parts.size() < most) {
    const auto to = parts.begin() + place(parts.size() + 1);
    parts.insert(to, random_part<Part>(genes, draws));
  }
  if (draws.happens(rate) && parts.size() > least) parts.erase(parts.begin() + place(parts.size()));
  if (draws.happens(rate) && parts.size() < most && !parts.empty()) {
    const auto i = place(parts.size());
    const Part copy = parts[static_cast<std::size_t>(i)];
    parts.insert(parts.begin() + i, copy);
  }
  if (draws.happens(rate) && parts.size() > 1) {
    const auto i = static_cast<std::size_t>(place(parts.size())), k = static_cast<std::size_t>(place(parts.size()));
    std::swap(parts[i], parts[k]);
  }
}

template <class Part>
std::vector<Part> random_parts(const std::vector<Gene>& genes, std::size_t least, std::size_t most, Draws& draws) {
  std::vector<Part> parts(least + draws.below(most - least + 1));
  for (Part& part : parts) part = random_part<Part>(genes, draws);
  return parts;
}

/// The first parts of `a`, then those of `b` from the same number on.
template <class Part>
std::vector<Part> crossed(const std::vector<Part>& a, const std::vector<Part>& b, Draws& draws) {
  const std::size_t cut = draws.below(std::min(a.size(), b.size()) + 1);
  std::vector<Part> child(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(cut));
  child.insert(child.end(), b.begin() + static_cast<std::ptrdiff_t>(cut), b.end());
  return child;
}

}  // namespace

Genome random_genome(const Space& space, Draws& draws) {
  return {random_parts<Stage>(space.stage, space.least_stages, space.most_stages, draws),
          random_parts<DenseLayer>(space.dense, space.least_dense, space.most_dense, draws),
          random_part<TrainingPart>(space.training, draws)};
}

Genome crossover(const Genome& a, const Genome& b, const Space& space, Draws& draws) {
  Genome child{crossed(a.stages, b.stages, draws), crossed(a.dense, b.dense, draws), a.training};
  for (std::size_t i = 0; i < space.training.size(); ++i)
    if (draws.happens(0.5)) child.training[i] = b.training[i];
  return child;
}

Genome mutated(Genome genome, const Space& space, const BreedingRates& rates, Draws& draws) {
  for (Stage& s : genome.stages) mutate_part(s, space.stage, rates, draws);
  for (DenseLayer& d : genome.dense) mutate_part(d, space.dense, rates, draws);
  mutate_part(genome.training, space.training, rates, draws);
  mutate_structure(genome.stages, space.stage, space.least_stages, space.most_stages, rates.structure, draws);
  mutate_structure(genome.dense, space.dense, space.least_dense, space.most_dense, rates.structure, draws);
  return genome;
}

}  // namespace keelson::search
