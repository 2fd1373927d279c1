#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/communicator.hpp"

namespace keelson {

/// "rank 3 (node7)", "ranks 1 (node7), 2 (node7) and 14 more"; `hosts` by rank.
std::string name_ranks(const std::vector<int>& ranks, const std::vector<std::string>& hosts);

/// Throws InputError on all ranks, naming those whose hash differs from rank 0's, if the ranks do not agree: "the ranks
/// have different WHAT: rank 1 (node2) differs from rank 0 (node1); ADVICE". Collective; costs one small reduction.
void compare_hash(Communicator& communicator, std::uint64_t hash, std::string_view what,
                  std::string_view advice = "start all ranks with the same program, options, environment and input");

}  // namespace keelson
