#pragma once

#include <string>

#include "engine/base/process_grid.hpp"

namespace keelson {

/// Number of ranks of a replica: the product of the extents along all axes but data.
inline int ranks_of(const ProcessGrid::Extents& replica) { return replica.space * replica.channel * replica.stage; }

/// The options that make such a replica, for messages: "--spatial 2x2, --channel-parallel 2". Empty for one rank.
std::string options_of(const ProcessGrid::Extents& replica);

/// The extents of the process grid of `ranks` ranks, of which replicas with the extents `replica` share the batch.
/// `replica.data` is not read. Throws InputError if the ranks are no multiple of a replica's ranks, and for axes along
/// which training and evaluation do not divide work: ensemble.
ProcessGrid::Extents training_extents(int ranks, const ProcessGrid::Extents& replica);

/// The process grid of a training or an evaluation, without a communicator. Its coordinate on data is the number of
/// this rank's replica; the ranks of a replica take the same samples, and one of them counts them. `ranks` null: this
/// rank alone. Throws as training_extents().
ProcessGrid training_grid(const Communicator* ranks, const ProcessGrid::Extents& replica);

}  // namespace keelson
