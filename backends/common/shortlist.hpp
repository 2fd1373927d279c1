#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace keelson::backends {

/// Selects the proposals of a library that are worth trying: the best of each engine, since the first proposals are
/// often one engine with different settings. `engines`: the engine of each proposal, the most promising proposal first.
/// Selects at most `most_of_one` proposals of an engine and `most` in all: first the best of each engine, then the
/// second-best of each, and so on; earlier proposals first. Returns indices into `engines`, ascending.
std::vector<std::size_t> shortlist(std::span<const std::int64_t> engines, std::size_t most_of_one, std::size_t most);

}  // namespace keelson::backends
