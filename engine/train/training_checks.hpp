#pragma once

#include <string>

#include "engine/base/communicator.hpp"
#include "engine/data/dataset.hpp"
#include "engine/graph/graph.hpp"
#include "engine/train/checkpoint/checkpoint_reader.hpp"
#include "engine/train/trainer_options.hpp"

namespace keelson {

/// Throws InputError for a batch below 1 and for fewer samples than replicas * batch. `batch`: per replica. `space`:
/// ranks of a replica. `data`: the data set, for the message.
void require_enough_samples(std::int64_t samples, std::int64_t batch, int replicas, const std::string& data,
                            int space = 1);

/// Throws InputError if these cannot be trained: on all ranks, if the ranks have different data or options; for
/// data that are too small for the batch or for the ranks; for a network with an input that the data do not have; and
/// for options that do not go together. `validation` and `ranks` may be null. `threads`: of this rank. Collective.
void require_trainable(const Graph& graph, const Dataset& training, const Dataset* validation,
                       const TrainerOptions& options, Communicator* ranks, int threads);

/// Throws InputError for a checkpoint that a run in the state `now` cannot go on from, as far as the checkpoint's state
/// tells. `leaves_samples_out`: PruneOptions::enabled().
void require_resumable(const CheckpointReader& checkpoint, const RunState& now, bool leaves_samples_out);

}  // namespace keelson
