#pragma once

#include <string>

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/process_grid.hpp"

namespace keelson {

/// Number of ranks of a replica: the product of the extents along all axes but data.
inline int ranks_of(const ProcessGrid::Extents& replica) { return replica.space * replica.channel * replica.stage; }

/// The extents of the process grid of `ranks` ranks, of which replicas with the extents `replica` share the batch.
/// `replica.data` is not read. Throws InputError if the ranks are no multiple of a replica's ranks.
inline ProcessGrid::Extents training_extents(int ranks, const ProcessGrid::Extents& replica) {
  const int of_replica = ranks_of(replica);
  if (replica.space < 1 || replica.channel < 1 || replica.stage < 1 || ranks % of_replica != 0) {
    std::string options;
    const auto add = [&](const char* option, int n) {
      if (n != 1) options += fmt::format("{}{} {}", options.empty() ? "" : " and ", option, n);
    };
    add("--spatial", replica.space);
    add("--channel-parallel", replica.channel);
    add("--stages", replica.stage);
    refuse("{}, but {} takes multiples of {}: start another number of ranks, or give another {}",
           counted(ranks, "rank"), options, of_replica, options.substr(0, options.find(' ')));
  }
  ProcessGrid::Extents extents = replica;
  extents.data = ranks / of_replica;
  return extents;
}

/// The process grid of a training or an evaluation, without a communicator. Its coordinate on data is the number of
/// this rank's replica; the ranks of a replica take the same samples, and one of them counts them. `ranks` null: this
/// rank alone. Throws as training_extents().
inline ProcessGrid training_grid(const Communicator* ranks, const ProcessGrid::Extents& replica) {
  return {training_extents(ranks ? ranks->size() : 1, replica), ranks ? ranks->rank() : 0};
}

}  // namespace keelson
