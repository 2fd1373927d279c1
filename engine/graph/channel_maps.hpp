#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/graph/graph.hpp"
#include "engine/graph/parameter_map.hpp"

namespace keelson {

/// The maps of all parameters of a network whose nodes with weights (convolution, dense, embedding) get other channels.
/// `channels`: by the node's name, for each of its new channels or features the old one, or -1 for a new one; nodes
/// that are not named keep theirs. The maps of the layers that read them follow, through activations, pooling, dropout,
/// sums, concatenation and flattening:
///
///   const auto maps = channel_maps(graph, {{"conv1", {0, 2, 3}}});  // channel 1 of conv1 goes
///   Parameters next = parameters.remap(make_network(3), maps);
///
/// Nodes have the same names in both networks. Throws InputError, naming the node, for a layer that mixes channels in a
/// way that is not known (a recurrent layer, a loss), for values of different channels that are added, and for channels
/// that the node has not.
ParameterMaps channel_maps(const Graph& graph, const std::map<std::string, std::vector<std::int64_t>>& channels);

}  // namespace keelson
