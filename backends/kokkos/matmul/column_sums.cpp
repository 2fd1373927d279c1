#include "backends/kokkos/matmul/column_sums.hpp"

#include "backends/kokkos/common/kernel.hpp"
#include "backends/kokkos/common/sum_lanes.hpp"

namespace keelson::kokkos {

namespace {

/// A work item sums neighbouring columns: on a CPU several vectors of them, row by row.
struct ColumnSums {
  static constexpr Index width = runs_on_host ? 64 : 1;
  const float* matrix;
  Index row_stride, column_stride;
  Index rows, columns;
  float* sums;

  KOKKOS_FUNCTION void operator()(Index item) const {
    const Index end = item * width + width < columns ? item * width + width : columns;
    Index column = item * width;
    if (column_stride == 1) {
      column = sum_all<width>(column, end);
      if constexpr (runs_on_host) column = sum_all<16>(column, end);
    }
    for (; column < end; ++column) sum<1>(column);
  }

  /// Returns the first column that is left.
  template <int count>
  KOKKOS_FUNCTION Index sum_all(Index column, Index end) const {
    for (; column + count <= end; column += count) sum<count>(column);
    return column;
  }

  template <int count>
  KOKKOS_FUNCTION void sum(Index column) const {
    constexpr Index rows_ahead = 8;  // the rows are too far apart for the processor's own prefetching
    SumLanes<count> sum;
    const float* from = matrix + column * column_stride;
    for (Index row = 0; row < rows; ++row, from += row_stride) {
      KEELSON_UNROLL
      for (int l = 0; l < count; l += floats_of_line) prefetch<true>(from + rows_ahead * row_stride + l);
      sum.add(from);
    }
    double total[count];
    sum.store(total);
    for (int l = 0; l < count; ++l) sums[column + l] = static_cast<float>(total[l]);
  }
};

}  // namespace

void column_sums(const float* matrix, Index row_stride, Index column_stride, Index rows, Index columns, float* sums) {
  constexpr const char* label = "keelson::column_sums";
  launch(label, ceil_div(columns, ColumnSums::width),
         ColumnSums{matrix, row_stride, column_stride, rows, columns, sums});
}

}  // namespace keelson::kokkos
