#pragma once

#include "backends/kokkos/common/kernel.hpp"

namespace keelson::kokkos {

/// For for_each_block(): sum[i] = slot[0][i] + slot[1][i] + ..., in this order. The slots have `size` elements each.
struct SumSlots {
  const float* slot;
  float* sum;
  Index slots, size;

  KOKKOS_FUNCTION void operator()(Index begin, Index end) const {
    for (Index i = begin; i < end; ++i) sum[i] = slot[i];
    for (Index s = 1; s < slots; ++s)
      for (Index i = begin; i < end; ++i) sum[i] += slot[s * size + i];
  }
};

}  // namespace keelson::kokkos
