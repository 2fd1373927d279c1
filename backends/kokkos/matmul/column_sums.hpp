#pragma once

#include <cstdint>

namespace keelson::kokkos {

/// sums[c] = the sum of column c of an f32 matrix: the gradient of a dense layer's bias. Element (row, column) is at
/// row * row_stride + column * column_stride. Sums are f64, in the order of rows.
void column_sums(const float* matrix, std::int64_t row_stride, std::int64_t column_stride, std::int64_t rows,
                 std::int64_t columns, float* sums);

}  // namespace keelson::kokkos
