#pragma once

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/process_grid.hpp"

namespace keelson {

/// Number of ranks of a replica: the product of the extents along all axes but data.
inline int ranks_of(const ProcessGrid::Extents& replica) { return replica.space * replica.channel * replica.stage; }

/// The extents of the process grid of `ranks` ranks, of which replicas with the extents `replica` share the batch.
/// `replica.data` is not read. Throws InputError if the ranks are no multiple of a replica's ranks, and for axes along
/// which training and evaluation do not divide work: all but data and space.
inline ProcessGrid::Extents training_extents(int ranks, const ProcessGrid::Extents& replica) {
  if (replica.channel != 1 || replica.stage != 1 || replica.ensemble != 1)
    refuse(
        "a replica with {} parts along channel, {} along stage and {} along ensemble: training and evaluation divide "
        "work along data and space alone. Leave the other axes out",
        replica.channel, replica.stage, replica.ensemble);
  if (replica.space < 1 || ranks % replica.space != 0)
    refuse("{}, but --spatial {} takes multiples of {}: start another number of ranks, or give another --spatial",
           counted(ranks, "rank"), replica.space, replica.space);
  ProcessGrid::Extents extents = replica;
  extents.data = ranks / replica.space;
  return extents;
}

/// The process grid of a training or an evaluation, without a communicator. Its coordinate on data is the number of
/// this rank's replica; the ranks of a replica take the same samples, and one of them counts them. `ranks` null: this
/// rank alone. Throws as training_extents().
inline ProcessGrid training_grid(const Communicator* ranks, const ProcessGrid::Extents& replica) {
  return {training_extents(ranks ? ranks->size() : 1, replica), ranks ? ranks->rank() : 0};
}

}  // namespace keelson
