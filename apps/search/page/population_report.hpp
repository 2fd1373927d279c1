#pragma once

#include <string>

#include "search/log/population.hpp"

namespace keelson::search {

/// The parts of the page that show a population that trains together: loss and learning rate of each member over the
/// epochs, and the lineage of the best.
std::string population_curves(const Population& population);
std::string lineage_of_best(const Population& population);

/// "adam 0.001, momentum 0, ...": all genes of a training.
std::string training_text(const TrainingPart& training, const Space& space);

}  // namespace keelson::search
