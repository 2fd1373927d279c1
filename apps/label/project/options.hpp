#pragma once

#include "apps/common/subcommand.hpp"
#include "apps/label/project/project.hpp"

namespace keelson::label {

/// Declares --images and how to read them, and the features of the networks.
void declare_images(ProjectSettings& s, app::Subcommand& v);
/// Declares the options of the networks.
void declare_networks(EnsembleOptions& o, app::Subcommand& v);
/// Declares --batch, --audit and --no-spread.
void declare_batch(BatchOptions& o, app::Subcommand& v);

/// Throws InputError unless there is a different character for each class, and one for "unsure".
void check_keys(const std::string& keys, std::size_t classes);
/// Column and row, from two numbers; none from none. Throws InputError for other texts.
std::optional<std::array<double, 2>> parse_centre(const std::vector<std::string>& texts);

}  // namespace keelson::label
