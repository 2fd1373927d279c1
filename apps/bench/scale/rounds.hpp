#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace keelson::bench {

/// One exchange of messages of a rank: a send and a receive at the same time. Bytes are those of f32.
struct Round {
  int to = -1;  ///< -1: sends nothing
  std::size_t sent = 0;
  int from = -1;  ///< -1: receives nothing
  std::size_t received = 0;
  bool add = false;  ///< what came is added up; else it is a part of the result
};

/// What `rank` of `ranks` does to sum up `bytes` over all ranks, with the schedules that training uses
/// (comm/allreduce/schedule.hpp): "ring", "halving", "doubling", or between the nodes of "two-level" (halving) and
/// "two-level-ring". There, each rank of a node first adds up its stripe of the node's arrays, and in the end all ranks
/// of the node get all stripes; `ranks_per_node` must divide `ranks`. Throws InputError for another name.
std::vector<Round> make_rounds(const std::string& algorithm, int rank, int ranks, int ranks_per_node,
                               std::size_t bytes);

}  // namespace keelson::bench
