#pragma once

#include <vector>

#include "engine/plan/fuse.hpp"

namespace keelson::bench {

/// Seconds of a node in a step.
struct NodeCost {
  double passes = 0;       ///< forward and backward, of all micro-batches
  double update = 0;       ///< of the node's parameters
  bool has_calls = false;  ///< whether anything is computed
};

/// The nodes of a stage.
struct StageNodes {
  int begin = 0, end = 0;  ///< in topological order
  double update = 0;       ///< seconds
  std::vector<int> sent;   ///< nodes before `end` whose values the next stage or a later one reads
};

/// Cuts the nodes into `stages` stages, each with at least one node that computes, so that the longest stage is as
/// short as it can be. Each stage reads the network's inputs itself. Throws InputError where there are fewer such
/// nodes.
std::vector<StageNodes> cut_stages(const FusedNodes& fused, const std::vector<NodeCost>& costs, int stages);

}  // namespace keelson::bench
