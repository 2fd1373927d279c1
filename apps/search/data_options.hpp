#pragma once

#include "apps/common/subcommand.hpp"
#include "apps/search/training/search_data.hpp"

namespace keelson::search {

/// Declares these options. They are stored in the log of a search.
void declare(DataOptions& o, app::Subcommand& subcommand);

}  // namespace keelson::search
