#pragma once

#include <cstddef>

namespace keelson {

/// The next multiple of 64: the size of a cache line and of the widest vector register.
constexpr std::size_t align64(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace keelson
