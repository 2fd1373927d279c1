#pragma once

#include <vector>

#include "engine/graph/graph.hpp"

namespace keelson {

/// A graph's nodes after fusion and, per node of the graph, the index of the node that now makes its value.
struct FusedNodes {
  std::vector<Graph::Node> nodes;
  std::vector<int> index;
};

/// Moves a node into the producer of its only argument, where nobody else reads the value in between and the producer's
/// layer has a rule for it (Layer::fusion_rules).
FusedNodes fuse(const Graph& graph, bool training, bool enabled);

}  // namespace keelson
