#pragma once

#include <string>

#include "apps/common/subcommand.hpp"
#include "apps/search/training/search_data.hpp"

namespace keelson::search {

/// Declares these options. They are stored in the log of a search.
void declare(DataOptions& o, app::Subcommand& subcommand);

/// Throws InputError for the options of a search, in this folder, that began in Python with a data set.
void require_named_data(const DataOptions& o, const std::string& folder);

}  // namespace keelson::search
