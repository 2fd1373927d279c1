#pragma once

#include "backends/kokkos/common/kernel.hpp"

namespace keelson::kokkos {

/// Element (row, column) is at row * row_stride + column * column_stride.
struct MatrixStrides {
  Index row, column;
  KOKKOS_FUNCTION MatrixStrides transposed() const { return {column, row}; }
};

/// Strides of a tensor with two dims.
inline MatrixStrides strides_of(const TensorDesc& d) { return {d.layout.strides()[0], d.layout.strides()[1]}; }

}  // namespace keelson::kokkos
