#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/data/loader.hpp"
#include "engine/grow/deepen.hpp"
#include "engine/grow/widen.hpp"
#include "engine/optim/schedule.hpp"
#include "engine/plan/precision.hpp"
#include "engine/train/checkpoint/run_state.hpp"

namespace keelson {

namespace detail {
class GrowthRanges;
}

/// The learning rate after a network has grown.
enum class GrownRate : std::uint8_t {
  schedule,  ///< as the schedule says, as if nothing had happened
  /// The schedule from the end of its warm-up again, in the epochs that are left, so that it decays faster: LEMON (Y.
  /// Wang et al., arXiv 2310.07999).
  lemon,
  net2net  ///< a tenth of what the schedule says: Net2Net (T. Chen, I. Goodfellow, J. Shlens, arXiv 1511.05641)
};
/// "schedule", "lemon" or "net2net".
std::string to_string(GrownRate rate);
/// The opposite of to_string(). Throws InputError for another text.
GrownRate parse_grown_rate(const std::string& text);

/// A number of units of a layer.
struct LayerWidth {
  std::int64_t units = 0;  ///< 0: `times` counts
  double times = 1;        ///< of the units in the program's network
};

/// The units that a layer has at first, and at most.
struct WidthRange {
  LayerWidth least;  ///< at first
  LayerWidth most;   ///< at most
};

/// How many copies of itself follow a layer (deepen()), at first and at most.
struct CopyRange {
  std::int64_t least = 0;  ///< at first
  std::int64_t most = 0;   ///< at most
};

/// How a network grows.
struct GrowthOptions {
  /// By the name of a layer, or of any other node that has one channel per unit; "*": all layers that have no entry of
  /// their own. Other layers stay as they are.
  std::map<std::string, WidthRange> widths;
  std::map<std::string, CopyRange> depth;  ///< the same of copies of layers, by the names of repeatable_layers()
  WidenMethod method = WidenMethod::copy;  ///< where new units come from
  double factor = 1.5;                     ///< of a layer's units, in one event; one unit more at least
  std::int64_t patience = 3;               ///< an event comes after so many validations without a better one
  std::vector<std::int64_t> epochs;        ///< not empty: after these epochs instead
  /// If after so many epochs no validation was better by `threshold`, an event is undone, and another layer grows; 0:
  /// never. Without `epochs` alone.
  std::int64_t undo = 1;
  /// By how much a validation has to be better than the best one before an event, relative to that, for the event to
  /// stay (as ReduceLROnPlateau of PyTorch has it).
  double threshold = 1e-4;
  std::int64_t events = 0;  ///< the most events, without those that were undone; 0: no limit
  /// The most parameters: `units`, or `times` those of the program's network. No layer grows beyond. None: no limit.
  std::optional<LayerWidth> parameters;
  /// The most milliseconds of a step, by the entry step_ms_entry; 0: no limit. There is no event after an epoch whose
  /// steps took longer, and an event that may be undone is undone if steps take longer at the end of its trial.
  double milliseconds = 0;
  /// The layer whose new outgoing weights have the largest gradients grows; false: all layers grow in each event.
  /// Layers get copies when none can become wider.
  bool one_layer = true;
  GrownRate rate = GrownRate::schedule;  ///< of the learning rate afterwards
  std::int64_t probe = 64;               ///< samples of the training data for these gradients
  std::int64_t probe_batch = 8;          ///< samples at a time
};

/// The network that grows, with as many units and copies as its layers have at first. `graph`: the program's network.
/// Throws InputError for a layer that the network does not have, whose width cannot change or that copies cannot
/// follow, for more units at first than the program's network has, for fewer at most than at first, for more parameters
/// at first than at most, and if no layer can grow.
Graph starting_network(const Graph& graph, const GrowthOptions& options);

/// What an event did.
struct GrowthEvent {
  std::int64_t epoch = 0;                            ///< epochs that were done before
  std::map<std::string, std::int64_t> units_before;  ///< of the groups that grew
  std::map<std::string, std::int64_t> units;         ///< the same afterwards
  std::map<std::string, std::int64_t> copies;        ///< of the layers that got a copy: how many there are then
  /// By group, root mean square over new outgoing weights; by layer, over the weights of a new copy.
  std::map<std::string, double> gradients;
  std::int64_t parameters_before = 0, parameters = 0;  ///< Graph::parameter_count()
};

/// Adds units and layers to a network while it trains, without a change of what it computes. An event comes before an
/// epoch. If one layer grows in an event, it is the layer for which the gradients of the outgoing weights of new units,
/// which are zero at first, have the largest root mean square (after GradMax: U. Evci et al., arXiv 2201.05125), and
/// when no layer can become wider, the layer whose copy has the largest gradients. Rank 0 takes these gradients. Events
/// are a function of run state, parameters and data.
///
/// Without GrowthOptions::epochs, an event that did not help, or made steps too slow, is undone
/// (NetworkChange::Kind::undo): parameters, moments and network are those of before, while epochs, steps and learning
/// rate go on. The next layer then grows at once, until none is left; all may grow again after a validation that is
/// better by GrowthOptions::threshold.
class Growth {
 public:
  /// What the events need of the training.
  struct Task {
    const Graph& graph;                     ///< the program's, not yet starting_network()
    const Dataset& training;                ///< of which some samples are the probe
    Communicator* ranks = nullptr;          ///< of the training; null: this rank alone
    std::uint64_t seed = 0;                 ///< of the choice of the probe
    Precision precision = Precision::fp32;  ///< as in PlanOptions; fp32 is taken for fp16, whose gradients are scaled
    LoaderThreads threads = {};             ///< that decode samples
    bool higher_is_better = false;          ///< of validations: Metric::higher_is_better()
  };
  /// All references must outlive this. Throws InputError as starting_network().
  Growth(const GrowthOptions& options, const Task& task);

  /// For TrainerOptions::change_network. Collective.
  std::optional<NetworkChange> operator()(const RunState& state, const Parameters& parameters);
  /// The last event; no value: none, or nothing grew.
  const std::optional<GrowthEvent>& last_event() const { return event_; }

 private:
  struct Record;
  struct Candidate;
  struct Network;
  bool is_due(const RunState& state, const Record& record) const;
  bool gained(const RunState& state, const Record& record) const;
  bool is_slow(const RunState& state) const;
  /// Ends the trial of the last event, if it is over.
  std::optional<NetworkChange> end_trial(const RunState& state, Record& record) const;
  std::vector<Candidate> candidates(const Network& network) const;
  Graph larger(const Network& network, const Candidate& candidate) const;
  std::vector<double> gradients(const Network& network, const std::vector<Candidate>& candidates,
                                std::int64_t epoch) const;
  std::map<std::string, std::vector<double>> sum_gradients(const NetworkChange& change, const Parameters& whole,
                                                           const std::vector<std::string>& names,
                                                           std::int64_t epoch) const;
  NetworkChange grow(const Network& network, const Candidate& candidate);

  GrowthOptions options_;
  Task task_;
  std::shared_ptr<const detail::GrowthRanges> ranges_;
  std::optional<GrowthEvent> event_;
};

/// The entry of RunState::observed in which Growth keeps its events: how many were not undone; of an event that may be
/// undone the finished epochs, else -1, and its number among the layers that could grow; RunState::best_metric at the
/// last event or undo, or the largest number if there was no validation; the numbers of the layers of which events were
/// undone since the network last became larger.
inline constexpr const char* growth_entry = "growth";

/// The learning rate of the next step of a training of so many epochs, for TrainerOptions::learning_rate.
double grown_rate(GrownRate rule, const Schedule& schedule, std::int64_t epochs, const RunState& state);

}  // namespace keelson
