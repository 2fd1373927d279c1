#pragma once

#include <vector>

#include "engine/graph/graph.hpp"

namespace keelson {

/// A graph's nodes after fusion and, per node of the graph, the index of the node that now makes its value.
struct FusedNodes {
  std::vector<Graph::Node> nodes;
  std::vector<int> index;
};

/// Moves element-wise nodes into the producer of their only argument, where that producer can apply them itself, nobody
/// else reads the value in between, and (in training) the derivative can be had from the result.
FusedNodes fuse(const Graph& graph, bool training, bool enabled);

}  // namespace keelson
