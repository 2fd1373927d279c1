#pragma once

#include <algorithm>

#include "backends/kokkos/common/kernel.hpp"

/// Sorts distinct numbers. On a GPU: first sorts runs by counting, for each number, the smaller numbers.
/// Then merges runs in pairs: the index of a number is its index in its run plus the number of smaller numbers in the
/// other run. So the work items of a pass are independent, the only extra memory is a copy, and there are log2(count /
/// run) passes.
namespace keelson::kokkos {

using Key = std::uint64_t;

/// The length of the first runs. All items of a warp read the same numbers, so that up to a thousand of them are
/// counted in less time than another launch takes.
constexpr Index first_run(Index count) { return count <= 1024 ? 1024 : 128; }

struct SortRuns {
  const Key* from;
  Key* to;
  Index count, run;
  KOKKOS_FUNCTION void operator()(Index i) const {
    const Index begin = i / run * run, end = begin + run < count ? begin + run : count;
    const Key own = from[i];
    constexpr int ahead = 8;  // numbers that are read before the first is compared
    Index before = begin, k = begin;
    for (; k + ahead <= end; k += ahead) {
      Key keys[ahead];
      for (int a = 0; a < ahead; ++a) keys[a] = from[k + a];
      for (int a = 0; a < ahead; ++a) before += keys[a] < own ? 1 : 0;
    }
    for (; k < end; ++k) before += from[k] < own ? 1 : 0;
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
  const Index first = first_run(count);
  launch(label, count, SortRuns{keys, other, count, first});
  for (Index run = first; run < count; run *= 2) {
    std::swap(keys, other);
    launch(label, count, MergeRuns{keys, other, count, run});
  }
  return other;
}

}  // namespace keelson::kokkos
