#pragma once

#include "backends/kokkos/common/merged_launches.hpp"

/// Sums of many terms on a GPU, in f64 and in an order that depends only on the number of terms. (On a CPU the threads
/// sum blocks, and one thread adds the few sums.)
namespace keelson::kokkos {

inline constexpr Index sum_fan = 64;                ///< terms of one work item, if there are no more than ...
inline constexpr Index most_sums = Index{1} << 17;  ///< ... this times as many

/// The number of work items of the first pass over `count` terms.
constexpr Index sums_of(Index count) {
  const Index wanted = ceil_div(count, sum_fan);
  return wanted < 1 ? 1 : wanted < most_sums ? wanted : most_sums;
}

/// Partial sums of the rows of a matrix of terms. A work item adds every `parts`-th term of a row, so that neighbouring
/// items read neighbouring memory.
template <class Term>
struct PartialSums {
  Term term;
  Index count, parts;  ///< terms and work items of a row
  double* to;          ///< (rows, parts)
  KOKKOS_FUNCTION void operator()(Index item) const {
    constexpr int ahead = 8;  // terms that are read before the first of them is added
    const Index row = item / parts;
    double sum = 0;
    Index i = item % parts;
    for (; i + (ahead - 1) * parts < count; i += ahead * parts) {
      double next[ahead];
      for (int k = 0; k < ahead; ++k) next[k] = term(row, i + k * parts);
      for (int k = 0; k < ahead; ++k) sum += next[k];
    }
    for (; i < count; i += parts) sum += term(row, i);
    to[item] = sum;
  }
};

/// Terms that are numbers in memory: (count), or (rows, count).
struct Numbers {
  const double* values;
  Index count = 0;
  KOKKOS_FUNCTION double operator()(Index i) const { return values[i]; }
  KOKKOS_FUNCTION double operator()(Index row, Index i) const { return values[row * count + i]; }
};

/// The number of f64 values that parallel_sum() needs as scratch memory. parallel_sums() needs this number for each
/// row.
constexpr Index parallel_sum_scratch(Index count) { return sums_of(count) + sums_of(sums_of(count)); }

/// result[row] = term(row, 0) + ... + term(row, count - 1) for each row, e.g. for each sample. The same launches add
/// all rows. `merging`: by launch_merging().
template <bool merging = false, class Term>
void parallel_sums(const char* label, const Term& term, Index rows, Index count, double* scratch, double* result) {
  Index parts = sums_of(count);
  double *here = scratch, *there = scratch + rows * parts;
  const auto start = [&](Index items, const auto& functor) {
    if constexpr (merging)
      launch_merging(label, items, functor);
    else
      launch(label, items, functor);
  };
  start(rows * parts, PartialSums<Term>{term, count, parts, parts == 1 ? result : here});
  while (parts > 1) {
    const Index next = sums_of(parts);
    start(rows * next, PartialSums<Numbers>{{here, parts}, parts, next, next == 1 ? result : there});
    const auto last = here;
    here = there, there = last;
    parts = next;
  }
}

/// The terms of a matrix with one row.
template <class Term>
struct OneRow {
  Term term;
  KOKKOS_FUNCTION double operator()(Index, Index i) const { return term(i); }
};

/// *result = term(0) + ... + term(count - 1)
template <bool merging = false, class Term>
void parallel_sum(const char* label, const Term& term, Index count, double* scratch, double* result) {
  parallel_sums<merging>(label, OneRow<Term>{term}, 1, count, scratch, result);
}

/// *result = values[0] + ... + values[count - 1], for the few sums that the threads of a CPU have made.
inline void sum_in_order(const char* label, const double* values, Index count, double* result) {
  launch(
      label, 1, KOKKOS_LAMBDA(Index) {
        double sum = 0;
        for (Index i = 0; i < count; ++i) sum += values[i];
        *result = sum;
      });
}

}  // namespace keelson::kokkos
