#pragma once

#include <cstdint>

#include "engine/base/philox.hpp"

namespace keelson::universe {

/// Independent uses of random numbers within one universe.
enum class RandomStream : std::uint32_t {
  kPriorDraw = philox::stream_of("universe/parameters"),
  kModes = philox::stream_of("universe/modes"),
};

/// Four random words; depend only on seed, use, universe and index.
constexpr philox::Block random_block(std::uint64_t seed, RandomStream use, std::uint64_t universe,
                                     std::uint64_t index) {
  return philox::block(seed ^ (std::uint64_t{static_cast<std::uint32_t>(use)} << 32), universe, index);
}

}  // namespace keelson::universe
