#pragma once

#include <utility>

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

  /// Calls use(i, values in f64, ...) for each part[i] that belongs to vector p of a Lanes<count>, of these vectors.
  /// All are passed by value: a template's reference to a vector would promise an alignment that vectors here do not
  /// have.
  template <class Use, class... V>
  KOKKOS_FORCEINLINE_FUNCTION static void widened(int p, const Use& use, V... v) {
    if constexpr (Lanes<count>::width == width) {
      use(p, widen<0>(v, std::make_index_sequence<width>())...);
    } else {
      static_assert(Lanes<count>::width == 2 * width);
      use(2 * p, widen<0>(v, std::make_index_sequence<width>())...);
      use(2 * p + 1, widen<width>(v, std::make_index_sequence<width>())...);
    }
  }

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

 private:
  /// The lanes first + l of v.
  template <std::size_t first, class V, std::size_t... l>
  KOKKOS_FORCEINLINE_FUNCTION static Vector widen(V v, std::index_sequence<l...>) {
#if defined(__CUDACC__) || defined(__HIPCC__) || !defined(__GNUC__)
    return static_cast<double>(v.x);
#else
    return __builtin_convertvector(__builtin_shufflevector(v, v, (first + l)...), Vector);
#endif
  }
};

}  // namespace keelson::kokkos
