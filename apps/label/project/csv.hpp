#pragma once

#include <filesystem>
#include <string>

#include "apps/label/project/project.hpp"

namespace keelson::label {

/// All images of a project as CSV: id, file, index, label, source, annotator, p_0 ..., std, bald, margin, round, time.
/// A line for each label of a person (source person), and one for each image that no person has looked at (source
/// model): its label is the likeliest class if its probability is at least `confidence`, else empty. `predictions`: may
/// be null.
std::string labels_csv(const Project& project, const Images& images, const StoredPredictions* predictions,
                       double confidence);

/// What a file of labels has.
struct ImportedLabels {
  std::int64_t taken = 0, same = 0, left_out = 0;  ///< left out: without a label, or of a model
};
/// Takes the labels of people from a CSV file with the columns id, or file and index; label; and perhaps source and
/// annotator (else `annotator`). A label that the person has already given is not written again. Throws InputError,
/// with the line, before anything is written.
ImportedLabels import_labels(Project& project, const Images& images, const std::filesystem::path& csv,
                             const std::string& annotator);

}  // namespace keelson::label
