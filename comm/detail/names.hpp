#pragma once

#include <string>
#include <vector>

namespace keelson::comm::detail {

/// "rank 3 (node7)", "ranks 1 (node7), 2 (node7) and 14 more"; `hosts` by rank.
std::string name_ranks(const std::vector<int>& ranks, const std::vector<std::string>& hosts);

/// This machine's name.
std::string host_name();

}  // namespace keelson::comm::detail
