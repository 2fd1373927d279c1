#pragma once

#include <filesystem>
#include <string>

#include "apps/common/device_options.hpp"
#include "apps/common/option.hpp"
#include "engine/train/rate_range.hpp"

namespace keelson::app {

class Subcommand;

/// Declares the options of the subcommand `lr-range`, which every program that trains has: --out, --lr-min, --lr-max,
/// --steps, --smoothing and --stop-at. Returns --out.
Option& declare(RateRangeOptions& o, std::string& out, Subcommand& subcommand);

/// A search for learning rates, as the subcommands `lr-range` make it. All references must outlive the search.
struct RateSearch {
  const Graph& graph;
  const Dataset& training;
  std::string title;  ///< of the page
  const RateRangeOptions& rates;
  std::filesystem::path folder;  ///< made if there is none; gets lr-range.html and lr-range.csv
};

/// Searches from new parameters with the seed of `t`, prints the rates, and writes a page and a table on the first
/// rank. Signals end the search, after which nothing is written. Throws as find_rates(), and InputError if the folder
/// cannot be made. Collective.
ExitCode search_rates(const RateSearch& search, const DeviceSession& session, const TrainerOptions& t);

}  // namespace keelson::app
