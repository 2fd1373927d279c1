#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "search/genome/design.hpp"
#include "search/genome/genome.hpp"
#include "search/log/sorted_blocks.hpp"

namespace keelson::search {

class Line;

/// What a search minimises. The first objective decides which network is the best.
enum class Objective : std::uint8_t {
  loss,        ///< validation loss
  parameters,  ///< logarithm of the number of parameters
  flops,       ///< logarithm of the FLOPs of a sample
  time         ///< logarithm of the milliseconds of a training step, measured
};
std::string to_string(Objective objective);          ///< "loss"
Objective parse_objective(const std::string& name);  ///< throws InputError, naming all

/// How a population is trained: its members train one network at the same time, copy each other's weights, and vary in
/// the settings of the training.
struct PopulationTraining {
  std::int64_t members = 0;  ///< networks; 0: the search makes new networks instead
  double interval = 1;       ///< epochs after which a member may take over the weights of another: a rung
  double tournament = 0;     ///< ltfb: part of the training data by which members choose between two models
  bool partition = false;    ///< ltfb: each member trains on a part of the training data of its own
};

/// What a search does, as the first line of its log has it.
struct Settings {
  std::uint64_t seed = 1;                                 ///< of all choices
  std::string method = "evolution";                       ///< how new networks are made: method_names()
  std::vector<Objective> objectives = {Objective::loss};  ///< what is minimised
  double epochs = 8;                                      ///< of the longest training
  double first_epochs = 8;  ///< of the first rung; the next ones have `eta` times as many, at most `epochs`
  /// One of so many is promoted to the next rung (Li et al. 2018, arXiv 1810.05934); with the method grid all are.
  int eta = 4;
  double least_lease = 60;  ///< no training counts as lost before so many seconds
  Space space;              ///< of the networks
  /// The user's genome, repaired: the first network of evolution; of a population the design, and the settings of the
  /// training of the first member. No value: evolution begins at random, a population has the only design of the space.
  std::optional<Genome> start;
  PopulationTraining population;  ///< of the methods pbt and ltfb
  std::string data;               ///< what the workers compare their data with
  std::string config = "{}";      ///< the program's options, as JSON

  /// Whether the networks are the members of a population that trains together. Rungs are its intervals.
  bool trains_population() const { return population.members > 0; }
  int rungs() const;                 ///< number of rungs
  double epochs_of(int rung) const;  ///< epochs that a network has trained after a rung
  /// One line of JSON, {"type":"search",...}.
  std::string to_json() const;
  /// Throws InputError for anything else than to_json() writes.
  static Settings parse(const std::string& json);
};

/// What a training up to a rung has shown.
struct Result {
  int rung = 0;        ///< that was trained, from 0
  double loss = 0;     ///< of the validation data
  double metric = 0;   ///< of the validation data, for people: accuracy of classes, else the loss
  double seconds = 0;  ///< of this rung
  double step_ms = 0;  ///< of a training step
  /// Of ltfb: the losses of the member's own model and of its partner's before this rung, on the member's tournament
  /// data; none: it had no partner.
  std::optional<std::pair<double, double>> tournament = {};
};

/// A member's training from one rung to the next.
struct Interval {
  std::int64_t source = -1;   ///< the member with whose weights it began; -1: with new ones
  int source_rung = -1;       ///< after this rung of that member
  std::int64_t partner = -1;  ///< ltfb: the other member of the tournament before; -1: none
  TrainingPart training{};    ///< settings of the training
};

/// A network of a search. Its number is its place among all networks of the log.
struct Individual {
  std::int64_t id = 0;                ///< number of the network
  Genome genome;                      ///< repaired; of a member of a population: with its present training
  std::string key;                    ///< the genome as text, or "member 3"; no two networks have the same
  Cost cost;                          ///< of the network
  std::vector<std::int64_t> parents;  ///< numbers; empty: none
  std::string origin;                 ///< "random", "crossover, mutation", ...
  std::int64_t seen = 0;              ///< lines that its worker had read when it was made
  int slot = 0;                       ///< of that worker
  int worker = 0;                     ///< slot of the worker that trains the network, or has trained it last
  std::vector<Result> results;        ///< in the order of rungs
  /// Of a member of a population: in the order of rungs, with the rung that is trained now.
  std::vector<Interval> intervals;
  int rung = 0;           ///< that is trained, or was trained last
  int attempt = 0;        ///< of this rung
  bool running = true;    ///< whether the network is trained now
  bool orphaned = false;  ///< the workers of the time when the training began have ended without a result
  double since = 0;       ///< when the training of this rung began, in seconds since 1970
  std::string failure;    ///< why it will not be trained again; empty: it did not fail

  /// The latest result; null: there is none.
  const Result* last() const { return results.empty() ? nullptr : &results.back(); }
  /// The genome with the training of the latest result: a member of a population may train with other settings now.
  Genome genome_of_last() const {
    Genome g = genome;
    if (!results.empty() && !intervals.empty()) g.training = intervals[results.size() - 1].training;
    return g;
  }
};

/// All that a search knows: the lines of its log, applied one after the other. Every worker that has read the same
/// lines has the same population. A line, and the choice of what to do next, cost about the logarithm of the number of
/// networks, so that a thousand workers can follow one log; several objectives cost more, as best() says. One thread
/// uses a population at a time.
class Population {
 public:
  /// Applies a line of the log. Lines of an unknown type are counted, but change nothing. Throws InputError for a line
  /// that has not the entries of its type.
  void apply(const std::string& json);

  bool begun() const { return settings_.has_value(); }        ///< whether the first line was applied
  const Settings& settings() const { return *settings_; }     ///< of the first line
  std::int64_t seen() const { return seen_; }                 ///< lines applied so far
  int workers() const { return workers_; }                    ///< of the latest start
  const std::deque<Individual>& all() const { return all_; }  ///< by number
  const Individual* find(const std::string& key) const;       ///< the network with this genome; null: none has it

  /// At most so many of the networks with results, the best first: by their latest loss; with several objectives by the
  /// order of NSGA-II (Deb et al. 2002), non-dominated fronts and within a front the crowding distance. The first call
  /// after a result sorts all networks if there are several objectives.
  std::vector<std::int64_t> best(std::size_t most) const;
  /// The network at this place of best(), from 0; `place` must be less than with_results().
  std::int64_t at_place(std::size_t place) const;
  /// With several objectives, the networks that no other dominates; with one, the best.
  std::vector<std::int64_t> front() const;
  /// Networks that did not fail and have results.
  std::int64_t with_results() const { return static_cast<std::int64_t>(by_loss_.size()); }
  /// The values of the objectives at the latest result.
  std::vector<double> values_of(const Individual& i) const;

  /// The network that ASHA promotes next: from the top rung down, the best that was not promoted among the best
  /// floor(n / eta) of the n results of a rung. No value: none.
  std::optional<std::int64_t> promotable() const;
  /// Seconds after which a training without a result counts as lost: three times the 95th percentile of all results of
  /// the rung, at least Settings::least_lease; infinite before there are 5 results.
  double lease(int rung) const;
  /// A network whose training was lost, and that may be trained once more. `now`: seconds since 1970.
  std::optional<std::int64_t> lost(double now) const;
  std::int64_t running() const { return std::ssize(running_); }  ///< networks that are trained now

 private:
  using ByLoss = std::pair<double, std::int64_t>;  // loss and id
  bool has_one_objective() const {
    return settings_->objectives.size() == 1 && settings_->objectives[0] == Objective::loss;
  }
  std::size_t lease_group(int rung) const {  // the intervals of a population are equally long
    return settings_->trains_population() ? 0 : static_cast<std::size_t>(rung);
  }
  void begin_birth(const Line& line);
  void begin_run(const Line& line);
  void end_run(const Line& line);
  bool begin_interval(Individual& i, const Line& line) const;
  void end_interval(Individual& i, const Result& result) const;
  void end_in_failure(const Line& line);
  Individual* known(std::int64_t id);
  void run(Individual& i, int rung, double since);
  void stop(Individual& i);
  void orphan(Individual& i);
  const std::vector<std::int64_t>& pareto_ranking() const;
  std::vector<std::vector<double>> points_of(const std::vector<std::int64_t>& ids) const;

  std::optional<Settings> settings_;
  std::deque<Individual> all_;
  std::unordered_map<std::string, std::int64_t> ids_;                ///< by key
  std::set<std::int64_t> running_, orphaned_;                        ///< ids
  std::vector<std::set<std::pair<double, std::int64_t>>> began_;     ///< since and id of those that run, by lease group
  SortedBlocks<ByLoss> by_loss_;                                     ///< of the latest results
  std::vector<SortedBlocks<ByLoss>> of_rung_;                        ///< of the results of each rung
  std::vector<std::set<ByLoss>> waiting_;                            ///< those of them that may be promoted
  std::vector<SortedBlocks<double>> seconds_of_rung_;                ///< of the results, by lease group
  mutable std::optional<std::vector<std::int64_t>> pareto_ranking_;  ///< until the next result
  std::int64_t seen_ = 0;
  int workers_ = 1;
};

/// Lines of the log, for Population::apply().
std::string start_line(int workers, double now);
/// `most`: networks of the search, 0 without a limit. Workers that write their births at the same time do not know of
/// each other; a birth after the last network that the search may have is left out by all.
std::string birth_line(const Individual& individual, const Space& space, std::int64_t most, double now);
/// Claims a training; entries as in docs/file-formats.md.
std::string run_line(std::int64_t id, int rung, int attempt, int slot, double now);
/// The same of a member that begins another rung: `seen` lines of the log have decided how.
std::string interval_line(std::int64_t id, int rung, const Interval& interval, std::int64_t seen, int slot,
                          const Space& space, double now);
/// Ends a training with a result.
std::string result_line(std::int64_t id, const Result& result, double now);
/// `again`: whether another trial may help.
std::string failure_line(std::int64_t id, int rung, const std::string& reason, bool again, double now);

}  // namespace keelson::search
