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
    const Index next = to_next_channels<N>(r, channel);
    for_rows(begin, end, step, [&](auto count, Index row) {
      constexpr int K = decltype(count)::value;
      RowValues<T, N> x[K];
      for (int k = 0; k < K; ++k) x[k].read(src + r.offset(row + k * step, channel), next);
      for (int k = 0; k < K; ++k) {
        const double w = weight == nullptr ? 1.0 : static_cast<double>(weight[r.by_weight.quotient(row + k * step)]);
        if (w == 0) continue;
        KEELSON_UNROLL
        for (int p = 0; p < RowValues<T, N>::parts; ++p)
          SumLanes<N>::widened(
              p,
              [&](int i, auto value) {
                const auto weighted = w * value;
                first.part[i] += weighted;
                second.part[i] += weighted * value;
              },
              x[k].vector(p));
      }
    });
  }
};

}  // namespace keelson::kokkos
