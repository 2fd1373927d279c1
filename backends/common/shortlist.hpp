#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace keelson::backends {

/// Which of a library's proposals are worth trying: the best of each engine, since the first ones are often one engine
/// with different settings. `engines`: the engine of each proposal, the most promising proposal first. At most
/// `most_of_one` proposals of an engine and `most` in all. Where that is too many, the second-best of every engine go
/// before the third-best of any, and so on, and among equals the earlier proposal. Returns places in `engines`,
/// ascending: the most promising still comes first.
std::vector<std::size_t> shortlist(std::span<const std::int64_t> engines, std::size_t most_of_one, std::size_t most);

}  // namespace keelson::backends
