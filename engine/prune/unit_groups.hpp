#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/graph/channel_maps.hpp"

namespace keelson {

/// A layer that multiplies units by elements of a parameter.
struct UnitReader {
  int value = -1;         ///< the node whose channels are multiplied
  std::string bias = {};  ///< the parameter that the layer adds to its result; empty: none
  int dst_dim = 0;        ///< the dimension of the parameter that counts the result's channels, and the bias's elements
};

/// A dimension in which the units of a UnitGroup lie.
struct UnitPlace {
  int node = -1;               ///< of a value: the node in Graph::nodes(); -1: of a parameter
  std::string parameter = {};  ///< of a parameter: its name in Graph::parameters()
  int dim = 1;                 ///< the dimension of the value or of the parameter
  /// Of a parameter: whether its elements help to make the units. A parameter that several nodes share may also have
  /// readers.
  bool makes = false;
  /// Of a parameter: the layers that multiply units by its elements. A unit whose elements of all places with readers
  /// are zero has no effect on the network's results.
  std::vector<UnitReader> readers = {};
  std::vector<std::vector<std::int64_t>> indices = {};  ///< of each unit, ascending
};

/// Units (channels, features, hidden units) that several layers of a network have in common: a unit can only be removed
/// from all of these places together. Example: the channels of two convolutions whose results are added, of the batch
/// normalizations behind them, and the slices of the weights of all layers that read the sum.
struct UnitGroup {
  std::string name;               ///< of the first node with parameters that has one channel per unit
  std::int64_t units = 0;         ///< how many; of the channels that a grouped convolution reads: whole groups
  std::vector<UnitPlace> places;  ///< all places, values before parameters
  /// Units must stay: they are channels of an input, of an output or of a loss's source, or a layer depends on their
  /// number (softmax, RMS normalization) or regroups them (Layer::channel_ties has them in no tie).
  bool fixed = false;
};

/// The units of the network, in the order of the nodes that make them. Each channel that some layer can lose belongs to
/// exactly one unit of one group.
std::vector<UnitGroup> unit_groups(const Graph& graph);

/// Whether the node's channels are its own, and not those of its sources: of a convolution, a dense layer, an
/// embedding, a recurrent state.
bool makes_channels(const Graph& graph, const Graph::Node& node);

/// The network that has of group g the units keep[g] alone (ascending, without repetition, at least one). `groups`:
/// unit_groups(graph). Throws InputError, naming the group, for other units, and if a group that is fixed would lose
/// units.
NetworkChange keep_units(const Graph& graph, const std::vector<UnitGroup>& groups,
                         const std::vector<std::vector<std::int64_t>>& keep);

}  // namespace keelson
