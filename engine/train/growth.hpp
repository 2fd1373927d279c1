#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/data/loader.hpp"
#include "engine/grow/widen.hpp"
#include "engine/optim/schedule.hpp"
#include "engine/plan/precision.hpp"
#include "engine/train/checkpoint/run_state.hpp"

namespace keelson {

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

/// How a network grows.
struct GrowthOptions {
  /// By the name of a layer, or of any other node that has one channel per unit; "*": all layers that have no entry of
  /// their own. Other layers stay as they are.
  std::map<std::string, WidthRange> widths;
  WidenMethod method = WidenMethod::copy;  ///< where new units come from
  double factor = 1.5;                     ///< of a layer's units, in one event; one unit more at least
  std::int64_t patience = 3;               ///< an event comes after so many validations without a better one
  std::vector<std::int64_t> epochs;        ///< not empty: after these epochs instead
  /// The layer whose new outgoing weights have the largest gradients grows; false: all layers grow in each event.
  bool one_layer = true;
  GrownRate rate = GrownRate::schedule;  ///< of the learning rate afterwards
  std::int64_t probe = 64;               ///< samples of the training data for these gradients
  std::int64_t probe_batch = 8;          ///< samples at a time
};

/// The network that grows, with as many units as its layers have at first. `graph`: the program's network. Throws
/// InputError for a layer that the network does not have or whose width cannot change, for more units at first than the
/// program's network has, for fewer at most than at first, and if no layer can grow.
Graph starting_network(const Graph& graph, const GrowthOptions& options);

/// What an event did.
struct GrowthEvent {
  std::int64_t epoch = 0;                              ///< epochs that were done before
  std::map<std::string, std::int64_t> units_before;    ///< of the groups that grew
  std::map<std::string, std::int64_t> units;           ///< the same afterwards
  std::map<std::string, double> gradients;             ///< by group: root mean square over new outgoing weights
  std::int64_t parameters_before = 0, parameters = 0;  ///< Graph::parameter_count()
};

/// Adds units to a network while it trains, without a change of what it computes. An event comes before an epoch. If
/// one layer grows in an event, it is the layer for which the gradients of the outgoing weights of new units, which are
/// zero at first, have the largest root mean square (after GradMax: U. Evci et al., arXiv 2201.05125). Rank 0 takes
/// these gradients. Events are a function of run state, parameters and data.
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
  };
  /// All references must outlive this. Throws InputError as starting_network().
  Growth(const GrowthOptions& options, const Task& task);

  /// For TrainerOptions::change_network. Collective.
  std::optional<NetworkChange> operator()(const RunState& state, const Parameters& parameters);
  /// The last event; no value: none, or nothing grew.
  const std::optional<GrowthEvent>& last_event() const { return event_; }

 private:
  bool is_due(const RunState& state) const;
  std::vector<Widening> next_widths(const std::vector<UnitGroup>& groups) const;
  std::vector<double> gradients(const Graph& graph, const std::vector<UnitGroup>& groups,
                                std::vector<Widening> widening, const Parameters& whole, std::int64_t epoch) const;

  GrowthOptions options_;
  Task task_;
  std::vector<std::int64_t> most_;  ///< of each group
  std::optional<GrowthEvent> event_;
};

/// The learning rate of the next step of a training of so many epochs, for TrainerOptions::learning_rate.
double grown_rate(GrownRate rule, const Schedule& schedule, std::int64_t epochs, const RunState& state);

}  // namespace keelson
