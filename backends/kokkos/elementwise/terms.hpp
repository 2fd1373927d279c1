#pragma once

#include "backends/kokkos/common/values.hpp"

/// The common part of sums and products of several tensors, element by element.
namespace keelson::kokkos {

inline constexpr int max_terms = 8;  ///< of one pass; more terms take several passes

template <class T>
struct Terms {
  const T* src[max_terms];
  int count;
};

struct Plus {
  KOKKOS_FORCEINLINE_FUNCTION float operator()(float a, float b) const { return a + b; }
};
struct Times {
  KOKKOS_FORCEINLINE_FUNCTION float operator()(float a, float b) const { return a * b; }
};

/// dst may be the first term. Traffic: count + 1 elements per element.
template <class T, class Join>
struct JoinTerms {
  Terms<T> terms;
  T* dst;

  KOKKOS_FUNCTION void operator()(Index begin, Index end) const {
    if (terms.count == 2) return map_run(begin, end, Join(), dst, terms.src[0], terms.src[1]);
    if constexpr (!runs_on_host)
      if (end - begin == pack_width<T>) return join<pack_width<T>>(begin);
    Index i = begin;
    if constexpr (runs_on_host) {
      constexpr int width = 16;  // elements whose result stays in registers
      for (; i + width <= end; i += width) join<width>(i);
    }
    for (; i < end; ++i) join<1>(i);
  }

  template <int count>
  KOKKOS_FORCEINLINE_FUNCTION void join(Index at) const {
    float all[count], term[count];
    load(terms.src[0] + at, all);
    for (int k = 1; k < terms.count; ++k) {
      load(terms.src[k] + at, term);
      for (int l = 0; l < count; ++l) all[l] = Join()(all[l], term[l]);
    }
    store(dst + at, all);
  }
};

}  // namespace keelson::kokkos
