#pragma once

#include <cstddef>
#include <cstdint>

namespace keelson {

/// 64-bit FNV-1a (Fowler, Noll, Vo), continued from `hash`.
inline std::uint64_t fnv1a(const void* data, std::size_t bytes, std::uint64_t hash = 14695981039346656037ull) {
  const auto* p = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ p[i]) * 1099511628211ull;
  return hash;
}

}  // namespace keelson
