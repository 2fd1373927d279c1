#pragma once

#include <cstdint>
#include <vector>

#include "engine/train/trainer_options.hpp"

namespace keelson {

/// Losses of samples, as one rank has computed them.
struct LossesOfSamples {
  std::vector<std::int64_t> samples;  ///< numbers in the data set
  std::vector<float> losses;          ///< of the same samples
};

/// Evaluates some samples of the training data, without their random transform, and returns the losses of those that
/// this rank has computed. Makes a plan, and frees it. `ranks`: those that share the samples; null: this rank alone.
/// Collective.
LossesOfSamples evaluate_samples(const Graph& graph, Parameters& parameters, const Dataset& data,
                                 const std::vector<std::int64_t>& samples, const TrainerOptions& options,
                                 Communicator* ranks);

}  // namespace keelson
