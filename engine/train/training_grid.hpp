#pragma once

#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/process_grid.hpp"

namespace keelson {

/// The process grid of a training or an evaluation, data x space, without a communicator. Its coordinate on data is the
/// number of this rank's replica; the ranks of a replica take the same samples, and the first one along space counts
/// them. `ranks` null: this rank alone. `space`: ranks of a replica. Throws InputError where the ranks are no multiple
/// of it.
inline ProcessGrid training_grid(const Communicator* ranks, int space) {
  const int size = ranks ? ranks->size() : 1;
  if (space < 1 || size % space != 0)
    refuse("{}, but --spatial {} takes multiples of {}: start another number of ranks, or give another --spatial",
           counted(size, "rank"), space, space);
  return {{.data = size / space, .space = space}, ranks ? ranks->rank() : 0};
}

}  // namespace keelson
