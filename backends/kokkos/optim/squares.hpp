#pragma once

#include "backends/kokkos/common/parallel_sum.hpp"
#include "backends/kokkos/common/sum_lanes.hpp"

/// The sum of the squares of a flat array of f32, in f64 and in a fixed order.
namespace keelson::kokkos {

/// Blocks of a fixed size, each summed, then added in order: the result does not depend on the number of threads.
inline constexpr Index squares_block = 8192;

inline void sums_of_squares_of_blocks(const float* src, Index n, double* sums) {
  constexpr const char* label = "keelson::sum_squares::blocks";
  launch(
      label, ceil_div(n, squares_block), KOKKOS_LAMBDA(Index b) {
        constexpr int lanes = 64, floats_ahead = 1024;
        using Sums = SumLanes<lanes>;
        Sums sums_of_lanes;
        const Index begin = b * squares_block, end = begin + squares_block < n ? begin + squares_block : n;
        Index i = begin;
        for (; i + lanes <= end; i += lanes) {
          KEELSON_UNROLL
          for (int l = 0; l < lanes; l += floats_of_line) prefetch<true>(src + i + l + floats_ahead);
          KEELSON_UNROLL
          for (int p = 0; p < Sums::parts; ++p) {
            const auto x = Sums::values(src + i, p);
            sums_of_lanes.part[p] += x * x;
          }
        }
        double sum = 0, lane[lanes];
        for (; i < end; ++i) sum += static_cast<double>(src[i]) * static_cast<double>(src[i]);
        sums_of_lanes.store(lane);
        for (int l = 0; l < lanes; ++l) sum += lane[l];
        sums[b] = sum;
      });
}

/// A term of the sum on a GPU.
struct SquareOf {
  const float* src;
  KOKKOS_FUNCTION double operator()(Index i) const { return static_cast<double>(src[i]) * static_cast<double>(src[i]); }
};

/// The number of f64 values that sum_of_squares() needs as scratch memory.
constexpr Index sum_of_squares_scratch(Index n) {
  return runs_on_host ? ceil_div(n, squares_block) : parallel_sum_scratch(n);
}

/// *result = src[0]^2 + ... + src[n - 1]^2
inline void sum_of_squares(const float* src, Index n, double* scratch, double* result) {
  if constexpr (runs_on_host) {
    sums_of_squares_of_blocks(src, n, scratch);
    sum_in_order("keelson::sum_squares::total", scratch, ceil_div(n, squares_block), result);
  } else {
    parallel_sum<true>("keelson::sum_squares::sums", SquareOf{src}, n, scratch, result);
  }
}

}  // namespace keelson::kokkos
