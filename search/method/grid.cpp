#include <algorithm>
#include <set>

#include "engine/base/error.hpp"
#include "search/method/method.hpp"

namespace keelson::search {
namespace {

constexpr double most_genomes = 1e6;

/// Values of genes as the digits of a number, the last one the fastest.
class Digits {
 public:
  void add(const std::vector<Gene>& genes) {
    for (const Gene& g : genes) limits_.push_back(static_cast<int>(g.choices.size()));
  }
  double count() const {
    double n = 1;
    for (const int limit : limits_) n *= limit;
    return n;
  }
  /// Calls `use` with all values, in turn.
  template <class Use>
  void for_each(const Use& use) const {
    std::vector<int> values(limits_.size());
    for (;;) {
      use(values);
      std::size_t i = values.size();
      while (i > 0 && ++values[i - 1] == limits_[i - 1]) values[--i] = 0;
      if (i == 0) return;
    }
  }

 private:
  std::vector<int> limits_;
};

template <class Part>
std::vector<int>::const_iterator take(std::vector<int>::const_iterator from, const std::vector<Gene>& genes,
                                      Part& part) {
  std::copy_n(from, genes.size(), part.begin());
  return from + std::ssize(genes);
}

Digits digits_of(const Space& space, std::size_t stages, std::size_t dense) {
  Digits digits;
  for (std::size_t i = 0; i < stages; ++i) digits.add(space.stage);
  for (std::size_t i = 0; i < dense; ++i) digits.add(space.dense);
  digits.add(space.training);
  return digits;
}

template <class Use>
void for_each_number(const Space& space, const Use& use) {
  for (std::size_t stages = space.least_stages; stages <= space.most_stages; ++stages)
    for (std::size_t dense = space.least_dense; dense <= space.most_dense; ++dense) use(stages, dense);
}

}  // namespace

Grid::Grid(const Space& space) {
  double count = 0;
  for_each_number(space, [&](auto stages, auto dense) { count += digits_of(space, stages, dense).count(); });
  if (count > most_genomes)
    refuse("the space has {:.3g} genomes; a grid has at most {:.0f}: restrict the choices with --space", count,
           most_genomes);
  std::set<std::string> keys;
  for_each_number(space, [&](std::size_t stages, std::size_t dense) {
    digits_of(space, stages, dense).for_each([&](const std::vector<int>& values) {
      Genome genome;
      genome.stages.resize(stages);
      genome.dense.resize(dense);
      auto from = values.begin();
      for (Stage& s : genome.stages) from = take(from, space.stage, s);
      for (DenseLayer& d : genome.dense) from = take(from, space.dense, d);
      take(from, space.training, genome.training);
      genome = repaired(genome, space);
      if (keys.insert(to_json(genome, space)).second) genomes_.push_back(std::move(genome));
    });
  });
}

std::optional<Child> Grid::make_child(const Population& population, Draws& /*draws*/, int trial) const {
  const std::size_t next = population.all().size() + static_cast<std::size_t>(trial);
  if (next >= genomes_.size()) return std::nullopt;
  return Child{genomes_[next], {}, "grid"};
}

}  // namespace keelson::search
