#pragma once

#include "backends/kokkos/common/kernel.hpp"

namespace keelson::kokkos {

/// sum[0] = the sum of 2 * `half` numbers. A loop over `half` would keep the numbers in memory.
template <int half>
KOKKOS_FORCEINLINE_FUNCTION void fold(float* sum) {
  if constexpr (half > 0) {
    for (int l = 0; l < half; ++l) sum[l] += sum[l + half];
    fold<half / 2>(sum);
  }
}

/// term(0) + ... + term(count - 1) in one work item: in f32 lanes, which the compiler vectorises, and in f64 from block
/// to block.
template <class Term>
KOKKOS_FORCEINLINE_FUNCTION float run_sum(Index count, const Term& term) {
  constexpr int lanes = runs_on_host ? 16 : 1;
  constexpr Index block = 1024;
  double total = 0;
  for (Index begin = 0; begin < count; begin += block) {
    const Index end = begin + block < count ? begin + block : count;
    float sum[lanes] = {};
    Index i = begin;
    for (; i + lanes <= end; i += lanes) {
      KEELSON_KEEP_LOOP
      for (int l = 0; l < lanes; ++l) sum[l] += term(i + l);
    }
    float rest = 0;
    for (; i < end; ++i) rest += term(i);
    fold<lanes / 2>(sum);
    total += static_cast<double>(sum[0] + rest);
  }
  return static_cast<float>(total);
}

}  // namespace keelson::kokkos
