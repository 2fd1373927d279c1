#pragma once

#include "backends/kokkos/norm/channel_rows.hpp"

namespace keelson::kokkos {

/// Sums of w x and of w x^2 of each channel, where w is the weight of a sample.
template <class T>
struct ValueSums {
  const T* src;
  const float* weight;  ///< of each sample; null: all are 1
  ChannelRows r;

  template <int N>
  KOKKOS_FUNCTION void add(Index begin, Index end, Index step, Index channel, SumLanes<N>& first,
                           SumLanes<N>& second) const {
    for_rows(begin, end, step, [&](auto count, Index row) {
      constexpr int K = decltype(count)::value;
      float x[K][N];
      for (int k = 0; k < K; ++k) load_of_row(src + r.offset(row + k * step, channel), x[k]);
      for (int k = 0; k < K; ++k) {
        const double w = weight == nullptr ? 1.0 : static_cast<double>(weight[r.by_weight.quotient(row + k * step)]);
        if (w == 0) continue;
        KEELSON_UNROLL
        for (int p = 0; p < SumLanes<N>::parts; ++p) {
          const auto value = SumLanes<N>::values(x[k], p), weighted = w * value;
          first.part[p] += weighted;
          second.part[p] += weighted * value;
        }
      }
    });
  }
};

}  // namespace keelson::kokkos
