#pragma once

#include "backends/kokkos/common/tile.hpp"

namespace keelson::kokkos {

/// `count` sums in f64, which stay in registers. The compiler would keep arrays of this size in memory.
template <int count>
struct SumLanes {
  static constexpr int most = vector_width > 1 ? vector_width / 2 : 1;
  static constexpr int width = count < most ? count : most, parts = count / width;
#if defined(__CUDACC__) || defined(__HIPCC__) || !defined(__GNUC__)
  using Vector = double;
  static_assert(width == 1);
#else
  using Vector [[gnu::vector_size(width * 8), gnu::aligned(8), gnu::may_alias]] = double;
#endif
  Vector part[parts] = {};

  /// Those of `count` values that belong to part p, as f64.
  KOKKOS_FORCEINLINE_FUNCTION static Vector values(const float* x, int p) {
#if defined(__CUDACC__) || defined(__HIPCC__) || !defined(__GNUC__)
    return static_cast<double>(x[p]);
#else
    return __builtin_convertvector(*reinterpret_cast<const typename Lanes<width>::Vector*>(x + p * width), Vector);
#endif
  }
  /// Adds `count` values.
  KOKKOS_FORCEINLINE_FUNCTION void add(const float* x) {
    KEELSON_UNROLL
    for (int p = 0; p < parts; ++p) part[p] += values(x, p);
  }
  KOKKOS_FORCEINLINE_FUNCTION void store(double* to) const {
    KEELSON_UNROLL
    for (int p = 0; p < parts; ++p) *reinterpret_cast<Vector*>(to + p * width) = part[p];
  }
  KOKKOS_FORCEINLINE_FUNCTION void add_to(double* to) const {
    KEELSON_UNROLL
    for (int p = 0; p < parts; ++p) *reinterpret_cast<Vector*>(to + p * width) += part[p];
  }
};

}  // namespace keelson::kokkos
