#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "search/breed/breed.hpp"
#include "search/log/population.hpp"

namespace keelson::search {

/// A genome and where it comes from.
struct Child {
  Genome genome;                      ///< not repaired
  std::vector<std::int64_t> parents;  ///< numbers; empty: none
  std::string origin;                 ///< "random", "crossover, mutation", ...
};

/// How a search makes new genomes.
class Method {
 public:
  virtual ~Method() = default;
  /// The result depends on the arguments alone. `trial`: 0, and one more each time the result could not be taken. No
  /// value: there are no other genomes.
  virtual std::optional<Child> make_child(const Population& population, Draws& draws, int trial) const = 0;
};

/// Steady-state evolution. The first P networks are random, or Settings::start and changes of it; P = twice the
/// workers, at least 8. Then the parents are two of the best P of all results so far, drawn uniformly; with several
/// objectives each is the better of two.
struct Evolution : Method {
  BreedingRates rates;  ///< probabilities of the operators
  std::optional<Child> make_child(const Population& population, Draws& draws, int trial) const override;
};

/// Regularized evolution (Real et al. 2019, arXiv 1802.01548): the parent is the best of some random ones of the newest
/// P networks, so that every network dies of age.
struct Ageing : Method {
  BreedingRates rates;  ///< probabilities of the operators
  std::optional<Child> make_child(const Population& population, Draws& draws, int trial) const override;
};

/// Random genomes: what every search must be better than.
struct RandomSearch : Method {
  std::optional<Child> make_child(const Population& population, Draws& draws, int trial) const override;
};

/// All genomes of a small space, in a fixed order. A network is trained through all rungs, and has a result for each:
/// the log is a table, on which other methods can search without training.
class Grid : public Method {
 public:
  /// Throws InputError for a space of more than a million genomes.
  explicit Grid(const Space& space);
  std::optional<Child> make_child(const Population& population, Draws& draws, int trial) const override;
  const std::vector<Genome>& genomes() const { return genomes_; }  ///< repaired, each network once

 private:
  std::vector<Genome> genomes_;
};

std::vector<std::string> method_names();             ///< "evolution", "ageing", "random", "grid", "pbt", "ltfb"
bool is_population_method(const std::string& name);  ///< whether Settings::population says what it trains
/// The method of the settings. Throws InputError for an unknown name, naming all methods, and for settings with which
/// the method cannot work: a grid of too many genomes, or a population whose space has several designs, without a
/// start.
std::unique_ptr<Method> make_method(const Settings& settings);
/// Settings::start from a user's JSON, repaired. Throws InputError for a genome that the space does not have or whose
/// network is beyond the limits, and for methods that begin at random.
Genome parse_start(const std::string& json, const Settings& settings);

/// The individual that a worker makes next: its genome is repaired, within the limits of the space, and none that the
/// population knows. It depends on the lines that the population has applied and on the worker's slot alone, so the log
/// says how to make it again; a member of a population depends on its number alone. No value: after many trials there
/// is none.
std::optional<Individual> next_individual(const Population& population, const Method& method, int slot);

}  // namespace keelson::search
