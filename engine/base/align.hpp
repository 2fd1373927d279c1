#pragma once

#include <cstddef>

namespace keelson {

/// The next multiple of 64: arrays begin on cache lines, which are also the widest vectors.
constexpr std::size_t align64(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace keelson
