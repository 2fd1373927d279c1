#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

#include "engine/base/philox.hpp"

namespace keelson::detail {

/// `wanted` of `samples` samples, or all, ascending, drawn without repetition by numbers that follow from the arguments
/// alone. `use`: of the samples, so that two uses draw others.
inline std::vector<std::int64_t> draw_probe(std::string_view use, std::int64_t samples, std::int64_t wanted,
                                            std::uint64_t seed, std::int64_t epoch) {
  const philox::Key key{seed, philox::stream_of(use), static_cast<std::uint64_t>(epoch)};
  std::set<std::int64_t> drawn;
  for (std::uint64_t i = 0; std::ssize(drawn) < std::min(wanted, samples); ++i) {
    const auto place = static_cast<std::int64_t>(philox::uniform(key, i) * static_cast<float>(samples));
    drawn.insert(std::min(place, samples - 1));
    if (i == static_cast<std::uint64_t>(4 * wanted))  // nearly all samples are wanted
      for (std::int64_t s = 0; s < samples && std::ssize(drawn) < std::min(wanted, samples); ++s) drawn.insert(s);
  }
  return {drawn.begin(), drawn.end()};
}

}  // namespace keelson::detail
