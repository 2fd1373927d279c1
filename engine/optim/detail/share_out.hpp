#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

namespace keelson::detail {

/// For each matrix of so many rows the rank that decomposes it: the largest first, each to the rank with the least
/// work, which is n^3 for n rows.
inline std::vector<int> ranks_for_matrices(const std::vector<std::int64_t>& rows, int ranks) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return rows[i]; });
  std::vector<double> work(static_cast<std::size_t>(ranks));
  std::vector<int> rank_of(rows.size());
  for (const std::size_t i : order) {
    const auto least = std::ranges::min_element(work);
    const auto n = static_cast<double>(rows[i]);
    *least += n * n * n;
    rank_of[i] = static_cast<int>(least - work.begin());
  }
  return rank_of;
}

}  // namespace keelson::detail
