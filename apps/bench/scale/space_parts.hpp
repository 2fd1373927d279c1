#pragma once

#include <cstddef>
#include <vector>

#include "engine/plan/fuse.hpp"

namespace keelson::bench {

/// A message that a rank sends or receives for a node, within its replica.
struct RowTransfer {
  int peer = 0;           ///< number along space
  std::size_t bytes = 0;  ///< of one sample
  bool packed = false;    ///< rows that are not contiguous, and are copied before and behind the message
};

/// The exchange of rows that a node needs of its sources, along one dimension.
struct RowTransfersOfRank {
  std::vector<RowTransfer> sends, receives;
};

/// What one rank along space does for one node.
struct NodeShare {
  double share = 1;                           ///< part of the node's work
  double parameters = 1;                      ///< part of the node's parameters that the rank has
  double interior = 0;                        ///< part of the rank's own work that reads no rows of other ranks
  double value_bytes = 0;                     ///< of one sample, of what the rank holds of the result
  std::vector<RowTransfersOfRank> exchanges;  ///< one after the other, before the node's calls
};

/// Cuts samples into `space` parts: {4}, or {4, 2} along the first two spatial dimensions; empty: whole samples. The
/// bounds along each dimension are those of training (sample_parts()). Where a layer needs whole values, all ranks
/// along the dimension gather the value. Along the second dimension the rows that travel include those that have come
/// along the first. `by_channels`: all ranks share the channels of deep layers, as in training (channel_layers()).
/// `fused` are the nodes of `graph`. Returns the shares by rank along space, then by node. Throws InputError, naming
/// `net`, where samples cannot be cut into so many parts.
std::vector<std::vector<NodeShare>> share_nodes(const Graph& graph, const FusedNodes& fused,
                                                const std::vector<int>& space, const std::string& net,
                                                bool by_channels = true);

}  // namespace keelson::bench
