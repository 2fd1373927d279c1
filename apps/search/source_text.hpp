#pragma once

#include <string>

#include "search/genome/genome.hpp"

namespace keelson::search {

/// A C++ header with a function that makes the network.
std::string cpp_source(const Genome& genome, const Space& space);
/// A Python module with a function that makes the network, by the package keelson.
std::string python_source(const Genome& genome, const Space& space);

}  // namespace keelson::search
