#pragma once

#include <string>

#include "apps/search/training/search_folder.hpp"

namespace keelson::search {

/// The page of a search: its course, the best networks, the Pareto front, the ancestors of the best, how busy the
/// workers were. Self-contained HTML.
std::string render_search(const ReadSearch& search);

/// Writes render_search() into the search's folder.
void write_report(const ReadSearch& search);

}  // namespace keelson::search
