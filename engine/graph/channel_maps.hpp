#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/graph/graph.hpp"
#include "engine/graph/parameter_map.hpp"

namespace keelson {

/// The maps of all parameters of a network whose nodes with weights (convolution, dense, embedding) get other channels.
/// `channels` has an entry for each node that changes, by the node's name: for each new channel (or feature) the index
/// of the old channel, or -1 for a channel that is new. Nodes without an entry keep their channels. The function finds
/// the maps of the layers that read a changed node, also through activations, pooling, dropout, sums, concatenation and
/// flattening:
///
///   const auto maps = channel_maps(graph, {{"conv1", {0, 2, 3}}});  // removes channel 1 of conv1
///   Parameters next = parameters.remap(make_network(3), maps);
///
/// Nodes have the same names in both networks. Throws InputError, naming the node, for a layer that mixes channels in a
/// way that is not known (a recurrent layer, a loss), for a sum of values whose channels differ, and for indices of
/// channels that the node does not have.
ParameterMaps channel_maps(const Graph& graph, const std::map<std::string, std::vector<std::int64_t>>& channels);

}  // namespace keelson
