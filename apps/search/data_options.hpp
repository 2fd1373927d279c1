#pragma once

#include <string>

#include "apps/common/subcommand.hpp"
#include "apps/search/training/search_data.hpp"
#include "search/log/population.hpp"

namespace keelson::search {

/// Declares these options. They are stored in the log of a search.
void declare(DataOptions& o, app::Subcommand& subcommand);

/// Sets those options of a subcommand that the log of a search has, and the user did not give. `folder`: of the search.
/// Throws InputError for values that do not fit.
void fill_from_log(app::Subcommand& subcommand, const Settings& settings, const std::string& folder);

/// Throws InputError for the options of a search, in this folder, that began in Python with a data set.
void require_named_data(const DataOptions& o, const std::string& folder);

/// The text of a file that the user names. Throws InputError.
std::string text_of_file(const std::string& path);

}  // namespace keelson::search
