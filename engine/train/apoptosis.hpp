#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/data/loader.hpp"
#include "engine/graph/parameters.hpp"
#include "engine/plan/precision.hpp"
#include "engine/prune/criteria.hpp"
#include "engine/train/checkpoint/run_state.hpp"

namespace keelson {

/// When and how fast a network loses units.
struct ApoptosisOptions {
  UnitCriteria criteria;  ///< which units can go
  /// Of a group's units, the most that go in one event; rounded up to where a multiple is left.
  double share = 0.2;
  bool redundant = true;         ///< whether units can go that a linear combination of others replaces
  std::int64_t least_units = 8;  ///< units that a group keeps
  std::int64_t multiple = 8;     ///< of units, that groups of more than twice as many keep
  double rise = 0.002;           ///< of the loss on other samples, relative: more is undone
  /// Samples of the training data by which units are chosen; half as many others judge the choice. Of few samples,
  /// a quarter has part in an event.
  std::int64_t probe = 512;
  std::int64_t first_epoch = 2;  ///< no event is before an earlier epoch, counted from 1
  double first = 0.25;           ///< no event before this share of the epochs is done
  double last = 0.6;             ///< no event after this share of the epochs
  int most_tries = 4;            ///< each undone event is tried again with a quarter of the error

  /// "conservative", "normal" or "aggressive". Throws InputError for another name.
  static ApoptosisOptions of(const std::string& name);
};

/// What an event did.
struct ApoptosisEvent {
  std::int64_t epoch = 0;                              ///< epochs that were done before
  std::map<std::string, std::int64_t> units;           ///< of the groups that lost some: how many are left
  std::map<std::string, std::int64_t> lost;            ///< the same groups: how many went
  std::map<std::string, std::int64_t> reasons;         ///< of UnitRemoval::Reason: units that went
  std::int64_t parameters_before = 0, parameters = 0;  ///< Graph::parameter_count()
  double loss_before = 0, loss = 0;                    ///< mean over the samples that judge
  int undone = 0;                                      ///< tries whose loss rose too much
};

/// Removes units that contribute nothing while a network trains (C. Siegel, J. Daily, A. Vishnu, "Adaptive Neuron
/// Apoptosis for Accelerating Deep Learning on Large Scale Systems", arXiv 1610.00790; thresholds and schedule are
/// ours). An event comes before an epoch: it takes statistics of all units on some training samples, chooses units by
/// units_to_remove(), and compares the loss of the network with and without them on the same samples. It is a function
/// of run state, parameters and data, the same on all ranks and on any number of ranks.
class Apoptosis {
 public:
  /// What the events need of the training.
  struct Task {
    const Graph& graph;                     ///< before any event
    const Dataset& training;                ///< of which some samples are the probe
    Communicator* ranks = nullptr;          ///< that share the probe; null: this rank alone
    std::int64_t batch = 8;                 ///< samples at a time on each rank
    std::int64_t epochs = 1;                ///< TrainerOptions::epochs
    std::uint64_t seed = 0;                 ///< of the choice of the probe
    Precision precision = Precision::fp32;  ///< as in PlanOptions
    LoaderThreads threads = {};             ///< that decode samples
  };
  /// All references must outlive this.
  Apoptosis(const ApoptosisOptions& options, const Task& task) : options_(options), task_(task) {}

  /// For TrainerOptions::change_network. Collective.
  std::optional<NetworkChange> operator()(const RunState& state, const Parameters& parameters);
  /// The last event; no value: none, or the last one removed nothing.
  const std::optional<ApoptosisEvent>& last_event() const { return event_; }

 private:
  ApoptosisOptions options_;
  Task task_;
  std::optional<ApoptosisEvent> event_;
};

}  // namespace keelson
