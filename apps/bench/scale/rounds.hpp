#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace keelson::bench {

/// One exchange of messages of a rank: a send and a receive at the same time. Sizes are bytes of f32.
struct Round {
  int to = -1;  ///< -1: sends nothing
  std::size_t sent = 0;
  int from = -1;  ///< -1: receives nothing
  std::size_t received = 0;
  bool add = false;  ///< true: the received values are added; false: they are a part of the result
};

/// The rounds of `rank` among `ranks` for a sum of `bytes` bytes over all ranks, with the schedules of training
/// (comm/allreduce/schedule.hpp): "ring", "halving", "doubling", "two-level" (halving between nodes) or
/// "two-level-ring" (ring between nodes). With two levels, each rank of a node first adds up its stripe of the node's
/// arrays, and at the end all ranks of the node get all stripes; `ranks_per_node` must divide `ranks`. Throws
/// InputError for another name.
std::vector<Round> make_rounds(const std::string& algorithm, int rank, int ranks, int ranks_per_node,
                               std::size_t bytes);

}  // namespace keelson::bench
