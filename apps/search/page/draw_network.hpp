#pragma once

#include <string>

#include "search/genome/genome.hpp"

namespace keelson::search {

/// A picture of a network as SVG: a box for each layer, as high as its extent and as wide as its channels (logarithms).
std::string draw_network(const Genome& genome, const Space& space);

}  // namespace keelson::search
