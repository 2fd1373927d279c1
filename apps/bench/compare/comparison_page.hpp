#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/bench/compare/machine_file.hpp"
#include "apps/bench/compare/published.hpp"

namespace keelson::bench::comparison {

/// The data of a page.
struct Comparison {
  std::vector<MachineFile> machines;
  std::vector<PublishedFigure> published;
  std::int64_t samples = 524288;  ///< times, energies and prices are for one sample and for so many
};

/// One HTML page with everything inside, light and dark: plots with a table under each. Published figures are hatched
/// and name their sources. If a figure was not measured, the page says why.
std::string render_comparison(const Comparison& comparison);

}  // namespace keelson::bench::comparison
