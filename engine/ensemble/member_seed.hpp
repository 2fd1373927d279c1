#pragma once

#include <cstdint>

#include "engine/base/philox.hpp"

namespace keelson::ensemble {

/// The seed of a member's run: 53 random bits of Philox (engine/base/philox.hpp) of the seed of the ensemble and the
/// number of the member, so that every reader of JSON keeps all digits. Members of one ensemble, and of ensembles with
/// other seeds, have unrelated seeds.
constexpr std::uint64_t member_seed(std::uint64_t seed, std::int64_t member) {
  const philox::Key key{seed, philox::stream_of("member"), 0};
  const auto index = 2 * static_cast<std::uint64_t>(member);
  return (std::uint64_t{philox::bits(key, index)} << 32 | philox::bits(key, index + 1)) >> 11;
}

}  // namespace keelson::ensemble
