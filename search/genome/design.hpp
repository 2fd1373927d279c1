#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/graph/graph.hpp"
#include "engine/optim/optimizer.hpp"
#include "engine/optim/schedule.hpp"
#include "search/genome/genome.hpp"

namespace keelson::search {

/// What a network costs.
struct Cost {
  std::int64_t parameters = 0;  ///< trained elements
  double flops = 0;        ///< of a forward pass of one sample: 2 per multiply-add of convolutions and dense layers
  std::int64_t bytes = 0;  ///< of an estimate of a training step's memory: values, gradients, parameters, moments
};

/// The network of a repaired genome, with inputs "x" and "y", output "prediction" and a loss: cross entropy for
/// classes, else the mean of squares.
Graph network_of(const Genome& genome, const Space& space);

Cost cost_of(const Genome& genome, const Space& space);  ///< of a repaired genome
/// Why a network is not trained, by the limits of the space: "12000000 parameters, at most 10000000"; empty: it is.
std::string over_limit(const Cost& cost, const Space& space);

/// How a genome is trained.
struct TrainingPlan {
  std::shared_ptr<Optimizer> optimizer;  ///< with its settings
  Schedule schedule;                     ///< over all epochs
  std::int64_t batch = 1;                ///< samples of a step
};
/// `epochs`: of the longest training of the search, over which the learning rate falls.
TrainingPlan training_of(const Genome& genome, const Space& space, double epochs);

}  // namespace keelson::search
