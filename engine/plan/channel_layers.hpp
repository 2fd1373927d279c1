#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/graph/graph.hpp"
#include "engine/plan/plan.hpp"

namespace keelson {

/// Which layers of a graph some ranks can compute by channels: those with a rule (Layer::channel_part) and at least two
/// channels for each rank, whose parameters no other layer shares.
class ChannelRule {
 public:
  static constexpr int dim = 1;                      ///< that counts channels
  static constexpr std::int64_t least_channels = 2;  ///< of a rank: with fewer, the exchange costs more than the layer

  /// For layers of this graph, before or after fusion, and so many ranks.
  ChannelRule(const Graph& graph, int ranks);
  /// How all channels of the node's result are computed, from sources of these shapes; no value: each rank computes
  /// all of them.
  std::optional<ChannelPart> part(const Graph::Node& n, std::span<const ValueShape> srcs) const;

 private:
  std::int64_t ranks_;
  std::set<std::string> shared_;  ///< names of parameters that several nodes have
};

/// The deep layers, by name and in the order of the graph, that `ranks` ranks along space compute by channels: each rank
/// some of the filters or units, with its part of the parameters alone. Before them samples are cut into rows; from the
/// first of them on values are whole on each rank, or cut into channels.
///
/// The first one is chosen so that the memory for parameters that a rank saves outweighs, by as much as possible, the
/// memory for whole values that it needs instead. A parameter counts once, as its value, gradient and moments need at
/// least three times its elements; the elements of a whole value of one sample count twice: the value, and its gradient
/// in the backward pass of some samples. Layers with fewer than 65536 parameters, whose exchanges would cost more than
/// they save, are none of them; layers behind the first that are none of them are computed by all ranks alike. Empty if
/// no layer saves memory so.
///
/// The choice follows from the graph's shapes and the number of ranks alone: so plans for training and inference, with
/// any batch, have the same parts of the parameters they share.
std::vector<std::string> channel_layers(const Graph& graph, int ranks);

/// The same for the grid of a plan. Empty where the ranks keep whole parameters: with one rank along space, with
/// PlanOptions::whole_parameters, and in training plans with shards of the optimizer or PlanOptions::lag.
std::vector<std::string> channel_layers(const Graph& graph, const PlanOptions& options);

}  // namespace keelson
