#pragma once

#include <algorithm>

#include "backends/kokkos/common/kernel.hpp"

/// Sorts distinct numbers. On a GPU: first sorts runs of `sort_run` by counting, for each number, the smaller numbers.
/// Then merges runs in pairs: the index of a number is its index in its run plus the number of smaller numbers in the
/// other run. So the work items of a pass are independent, the only extra memory is a copy, and there are log2(count /
/// sort_run) passes.
namespace keelson::kokkos {

using Key = std::uint64_t;

inline constexpr Index sort_run = 128;

struct SortRuns {
  const Key* from;
  Key* to;
  Index count;
  KOKKOS_FUNCTION void operator()(Index i) const {
    const Index begin = i / sort_run * sort_run, end = begin + sort_run < count ? begin + sort_run : count;
    const Key own = from[i];
    Index before = begin;
    for (Index k = begin; k < end; ++k) before += from[k] < own ? 1 : 0;
    to[before] = own;
  }
};

struct MergeRuns {
  const Key* from;
  Key* to;
  Index count, run;
  KOKKOS_FUNCTION void operator()(Index i) const {
    const Index own_run = i / run;
    const Key own = from[i];
    Index low = (own_run ^ 1) * run,
          high = low + run;  // the other run, which may be cut by the end or be empty
    low = low < count ? low : count;
    high = high < count ? high : count;
    const Index first = low;
    while (low < high) {
      const Index middle = low + (high - low) / 2;
      if (from[middle] < own)
        low = middle + 1;
      else
        high = middle;
    }
    to[own_run / 2 * 2 * run + (i - own_run * run) + (low - first)] = own;
  }
};

/// Sorts keys[0 .. count). Returns the array with the result: `keys` or `other`.
inline Key* sort(const char* label, Key* keys, Key* other, Index count) {
  if constexpr (runs_on_host) {
    fence(label);
    std::sort(keys, keys + count);
    return keys;
  }
  launch(label, count, SortRuns{keys, other, count});
  for (Index run = sort_run; run < count; run *= 2) {
    std::swap(keys, other);
    launch(label, count, MergeRuns{keys, other, count, run});
  }
  return other;
}

}  // namespace keelson::kokkos
