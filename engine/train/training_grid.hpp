#pragma once

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/process_grid.hpp"

namespace keelson {

/// The extents of the grid data x space of `ranks` ranks, of which `space` make up a replica. `columns`: as in
/// ProcessGrid::Extents. Throws InputError if the ranks are no multiple of it.
inline ProcessGrid::Extents training_extents(int ranks, int space, int columns = 1) {
  if (space < 1 || ranks % space != 0)
    refuse("{}, but --spatial {} takes multiples of {}: start another number of ranks, or give another --spatial",
           counted(ranks, "rank"), space, space);
  return {.data = ranks / space, .space = space, .columns = columns};
}

/// The process grid of a training or an evaluation, data x space, without a communicator. Its coordinate on data is the
/// number of this rank's replica; the ranks of a replica take the same samples, and the first one along space counts
/// them. `ranks` null: this rank alone. `space`: ranks of a replica. Throws as training_extents().
inline ProcessGrid training_grid(const Communicator* ranks, int space) {
  return {training_extents(ranks ? ranks->size() : 1, space), ranks ? ranks->rank() : 0};
}

}  // namespace keelson
