#pragma once

#include <string>

#include "apps/label/project/project.hpp"

namespace keelson::label {

/// The page on which people label, without its data: the server's.
std::string server_page(const Project& project, const std::string& annotator, const std::string& nonce);
/// The page with these images inside: works without a server, and exports labels as CSV.
std::string single_page(const Project& project, const Images& images, const StoredPredictions* predictions,
                        const AskedBatch& batch, const std::string& annotator);

/// The images of a batch in the order in which people see them: those of the audit are spread among the others.
std::vector<std::int64_t> order_of(const AskedBatch& batch);
/// What the page shows of the project as a whole, as JSON. `annotator`: whose undo is meant.
std::string state_json(const Project& project, const std::string& annotator);
/// What the page shows of one image, as JSON; `picture`: an address to add, or empty.
std::string details_json(const Project& project, const Images& images, const StoredPredictions* predictions,
                         std::int64_t image, const std::string& picture);
/// A PNG file of an image.
std::string picture_of(const Project& project, const Images& images, std::int64_t image, std::int64_t edge);

}  // namespace keelson::label
