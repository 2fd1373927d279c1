#pragma once

#include "search/genome/genome.hpp"
#include "search/log/population.hpp"

namespace keelson::search {

inline Space table_space() { return Space::of({10}, 3, true); }
inline Space image_space() { return Space::of({3, 20, 24}, 10, true); }

/// A search for networks on images, without early stopping.
inline Settings settings_of(Space space, std::uint64_t seed = 1) {
  Settings s;
  s.seed = seed;
  s.space = std::move(space);
  return s;
}

}  // namespace keelson::search
