#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/graph/graph.hpp"
#include "engine/graph/parameter_map.hpp"
#include "engine/graph/parameters.hpp"
#include "engine/graph/topology.hpp"

namespace keelson {

/// Another network to train from the next step on.
struct NetworkChange {
  /// What becomes of the network in training.
  enum class Kind : std::uint8_t {
    replace,  ///< training goes on with `graph`
    /// Training goes back to the network before the last change that had `may_be_undone`, with its parameters and
    /// moments. `graph` is empty. The next change is asked for at once.
    undo,
    keep  ///< the network stays, and the last change will not be undone. `graph` is empty
  };
  Graph graph;         ///< with the inputs, loss and outputs that data and metrics need
  ParameterMaps maps;  ///< as Parameters::remap() takes them
  /// New values, in plain order, of parameters of the new network whose values are not copies: outgoing weights of a
  /// unit that takes the place of another. Their moments are copies all the same.
  std::map<std::string, std::vector<float>> values = {};
  /// Of parameters of the new network, in plain order: by how much the gradient of each element is a multiple of that
  /// of the element that it is a copy of. Moments that are means of gradients are multiplied by it, means of squares by
  /// its square.
  std::map<std::string, std::vector<float>> gradient_factors = {};
  std::string text = {};      ///< for people: what changes, and why; may be empty
  Kind kind = Kind::replace;  ///< what the trainer does
  /// Training, and its checkpoints, hold the network of before too, until another change.
  bool may_be_undone = false;
  /// Entries of RunState::observed that become these values.
  std::map<std::string, std::vector<double>> observed = {};
};

/// The channels that some nodes keep, by the node's name: for each new channel (or feature) the index of the old
/// channel, or -1 for a channel that is new.
using KeptChannels = std::map<std::string, std::vector<std::int64_t>>;

/// The network whose nodes with weights (convolution, dense, embedding) or recurrent states have other channels, and
/// the maps of its parameters. `channels` has an entry for each node that changes. Nodes without an entry keep their
/// channels. The layers that read a changed node follow, also through activations, pooling, dropout, sums,
/// concatenation, flattening and recurrent layers (Layer::channel_ties):
///
///   const NetworkChange change = change_channels(graph, {{"conv1", {0, 2, 3}}});  // removes channel 1 of conv1
///   Parameters next = parameters.remap(change.graph, change.maps);
///
/// Nodes have the same names in both networks. Throws InputError, naming the node, for a layer that mixes channels in a
/// way that is not known (a loss), for sources of which different channels are kept where they belong together (a sum,
/// the gates and the state of a recurrent layer), and for indices of channels that the node does not have.
NetworkChange change_channels(const Graph& graph, const KeptChannels& channels);

/// The parameters of the new network: remap(), the new values, and moments for the new gradients. `moments`: the names
/// of the moments, as UpdateRule::state_names() has them; one whose name ends with "_sq" is a mean of squares. Throws
/// InputError as Parameters::remap().
Parameters changed_parameters(const Parameters& parameters, const NetworkChange& change,
                              const std::vector<std::string>& moments);

/// The maps of change_channels() alone, for a caller that makes the new network itself.
ParameterMaps channel_maps(const Graph& graph, const KeptChannels& channels);

/// `graph` with the widths of the nodes of `topology` that have the same names, so that the network of a checkpoint can
/// be made from the network as it was before channels were removed or added. Throws InputError if layers do not fit
/// these widths. Compare Topology() of the result where the topology may be of quite another network.
Graph with_widths(const Graph& graph, const Topology& topology);

}  // namespace keelson
