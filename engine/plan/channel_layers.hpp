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

/// The deep layers, by name and in the order of the graph, that `ranks` ranks along space compute by channels: each
/// rank some of the filters or units, with its part of the parameters alone. Before the first of these layers samples
/// are cut into rows. From the first one on, values are whole on each rank, or cut into channels.
///
/// The first one is the layer for which W - 2 V is largest. W is the number of parameters, of this layer and those
/// behind it, of which each rank then has a part. V is the number of elements, for one sample, of the values that each
/// rank then holds as wholes. The ranks save memory for W parameters, gradients and moments, and need more memory for V
/// elements and their gradients, times the samples of a batch: with one moment, batches of up to 3 samples save memory
/// with each layer. Layers with fewer than 65536 parameters, whose exchanges would cost more than they save, are
/// computed by all ranks alike. Empty if W - 2 V is positive for no layer. The first layer, which reads an input, is
/// cut into rows in any case.
///
/// The choice follows from the shapes of the graph and the number of ranks alone. So plans for training and inference,
/// with any batch, have the same parts of the parameters that they share.
std::vector<std::string> channel_layers(const Graph& graph, int ranks);

/// The same for the grid of a plan. Empty where the ranks keep whole parameters: with one rank along space, with
/// PlanOptions::whole_parameters, and in training plans with shards of the optimizer or PlanOptions::lag.
std::vector<std::string> channel_layers(const Graph& graph, const PlanOptions& options);

}  // namespace keelson
