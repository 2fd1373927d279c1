#pragma once

#include <vector>

#include "engine/graph/graph.hpp"
#include "engine/plan/plan.hpp"

namespace keelson {

/// The nodes of a graph after fusion.
struct FusedNodes {
  std::vector<Graph::Node> nodes;  ///< in topological order; their srcs are indices into this list
  std::vector<int> index;          ///< per node of the graph: the index in `nodes` of the node that makes the value now
};

/// Makes one node of a node and its only source, if no other node, output or loss reads the value between the two
/// and the layer of the source has a rule for the pair (Layer::fusion_rules). The node also has the parameters of the
/// node that has moved into it (Graph::Node::shared). With PlanOptions::fuse false all nodes stay as they are.
FusedNodes fuse(const Graph& graph, const PlanOptions& options);

}  // namespace keelson
