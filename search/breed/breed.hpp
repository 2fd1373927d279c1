#pragma once

#include "search/genome/draws.hpp"
#include "search/genome/genome.hpp"

namespace keelson::search {

/// Probabilities of the operators. The defaults are the best of a few that were tried on a table of 1008 networks
/// (docs/search.md, "Comparing methods").
struct BreedingRates {
  double crossover = 0.5;  ///< two parents; else one
  double point = 0.1;      ///< of each gene: another value
  double near = 0.05;      ///< standard deviation of an ordered gene's step, as a part of its choices
  double structure = 0.1;  ///< each of: insert, remove, repeat, exchange a stage or dense layer
  double random = 0.05;    ///< a genome without parents
};

/// A genome whose genes are drawn uniformly; so are the numbers of stages and dense layers.
Genome random_genome(const Space& space, Draws& draws);

/// One-point crossover of stages and of dense layers, aligned from the front; each gene of the training comes from one
/// of the parents.
Genome crossover(const Genome& a, const Genome& b, const Space& space, Draws& draws);

/// Changes genes and structure at random. Ordered genes move by normal steps, at least by one; others get another
/// choice.
Genome mutated(Genome genome, const Space& space, const BreedingRates& rates, Draws& draws);

}  // namespace keelson::search
