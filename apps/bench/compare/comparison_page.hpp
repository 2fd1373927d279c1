#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/bench/compare/machine_file.hpp"
#include "apps/bench/compare/published.hpp"

namespace keelson::bench::comparison {

/// What a page compares.
struct Comparison {
  std::vector<MachineFile> machines;
  std::vector<PublishedFigure> published;
  std::int64_t samples = 524288;  ///< times, energies and prices are for one and for so many
};

/// One HTML page with everything inside, light and dark: plots with a table under each. Published figures are hatched
/// and have their sources; what was not measured says why.
std::string render_comparison(const Comparison& comparison);

}  // namespace keelson::bench::comparison
