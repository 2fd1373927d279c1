#pragma once

#include "engine/tune/autotuner.hpp"

namespace keelson {

class Communicator;

/// The ranks of a communicator, which choose together. Null: this process alone.
TuningRanks tuning_ranks(Communicator* ranks);

}  // namespace keelson
