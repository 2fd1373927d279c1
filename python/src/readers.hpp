#pragma once

#include "engine/data/dataset.hpp"
#include "engine/train/trainer.hpp"

namespace keelson::python {

/// Sets what training on the data of a program's reader needs, and what the program wants to find in checkpoints: the
/// order and the unit of texts and their vocabulary, the ranges of snapshots. Other data sets: nothing. Throws
/// InputError for a text that was opened for another batch of all ranks than that of the options on `ranks` ranks.
void fit_to_reader(TrainerOptions& options, const Dataset& training, const Dataset* validation, int ranks);

}  // namespace keelson::python
