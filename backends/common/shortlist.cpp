#include "backends/common/shortlist.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace keelson::backends {

std::vector<std::size_t> shortlist(std::span<const std::int64_t> engines, std::size_t most_of_one, std::size_t most) {
  std::map<std::int64_t, std::size_t> seen;
  std::vector<std::pair<std::size_t, std::size_t>> ranked;  // rank within the engine, index
  for (std::size_t i = 0; i < engines.size(); ++i)
    if (const auto rank = seen[engines[i]]++; rank < most_of_one) ranked.emplace_back(rank, i);
  std::sort(ranked.begin(), ranked.end());
  if (ranked.size() > most) ranked.resize(most);
  std::vector<std::size_t> kept;
  for (const auto& [rank, index] : ranked) kept.push_back(index);
  std::sort(kept.begin(), kept.end());
  return kept;
}

}  // namespace keelson::backends
