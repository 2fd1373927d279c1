#pragma once

#include "engine/data/dataset.hpp"
#include "engine/train/trainer.hpp"

namespace keelson::python {

/// For data sets of the programs' readers, sets the options that training on them needs, and the texts that the program
/// expects in checkpoints: for texts the order of samples, the unit and the vocabulary, for snapshots the ranges. For
/// other data sets does nothing. Throws InputError for a text that was opened for another global batch than that of the
/// options on `ranks` ranks.
void fit_to_reader(TrainerOptions& options, const Dataset& training, const Dataset* validation, int ranks);

}  // namespace keelson::python
