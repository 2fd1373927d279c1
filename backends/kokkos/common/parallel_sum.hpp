#pragma once

#include "backends/kokkos/common/kernel.hpp"

/// Sums of many terms on a GPU, in f64 and in an order that depends on nothing but their number. (On a CPU the threads
/// take blocks, whose sums are few enough for one.)
namespace keelson::kokkos {

inline constexpr Index sum_fan = 64;                ///< terms of one work item, where there are no more than ...
inline constexpr Index most_sums = Index{1} << 17;  ///< ... this times as many

/// Work items of the first pass over `count` terms.
constexpr Index sums_of(Index count) {
  const Index wanted = ceil_div(count, sum_fan);
  return wanted < 1 ? 1 : wanted < most_sums ? wanted : most_sums;
}

/// Each sum takes every `sums`-th term, so that neighbouring items read neighbouring memory.
template <class Term>
struct PartialSums {
  Term term;
  Index count, sums;
  double* to;
  KOKKOS_FUNCTION void operator()(Index item) const {
    constexpr int ahead = 8;  // terms that are read before the first of them is added
    double sum = 0;
    Index i = item;
    for (; i + (ahead - 1) * sums < count; i += ahead * sums) {
      double next[ahead];
      for (int k = 0; k < ahead; ++k) next[k] = term(i + k * sums);
      for (int k = 0; k < ahead; ++k) sum += next[k];
    }
    for (; i < count; i += sums) sum += term(i);
    to[item] = sum;
  }
};

struct Numbers {
  const double* values;
  KOKKOS_FUNCTION double operator()(Index i) const { return values[i]; }
};

/// f64 numbers that parallel_sum() needs as scratch memory.
constexpr Index parallel_sum_scratch(Index count) { return sums_of(count) + sums_of(sums_of(count)); }

/// *result = term(0) + ... + term(count - 1)
template <class Term>
void parallel_sum(const char* label, const Term& term, Index count, double* scratch, double* result) {
  Index sums = sums_of(count);
  double *here = scratch, *there = scratch + sums;
  launch(label, sums, PartialSums<Term>{term, count, sums, sums == 1 ? result : here});
  while (sums > 1) {
    const Index next = sums_of(sums);
    launch(label, next, PartialSums<Numbers>{{here}, sums, next, next == 1 ? result : there});
    const auto last = here;
    here = there, there = last;
    sums = next;
  }
}

}  // namespace keelson::kokkos
