#pragma once

#include <string>

#include "apps/label/project/project.hpp"
#include "engine/ops/context.hpp"

namespace keelson::label {

/// All images that have a class by now. Throws InputError for fewer than two different classes.
std::vector<Labelled> labels_to_learn(const Project& project);

/// Trains the project's networks on the labels so far, and writes what they say to the project. Returns the new round.
Round train_round(Project& project, Context& context);

/// Chooses the next batch of a project, and writes it to the journal: the first images if there are no predictions yet.
/// Throws InputError if no image is left.
AskedBatch ask_next(Project& project, const BatchOptions& options);

}  // namespace keelson::label
