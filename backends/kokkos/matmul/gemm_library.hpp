#pragma once

#include "backends/kokkos/matmul/gemm.hpp"

/// Kokkos Kernels' dense product, which calls the vendor's BLAS; where the build has none, nothing is accepted.
namespace keelson::kokkos {

/// A logical rows x columns matrix whose elements lie densely, by rows or by columns.
struct LibraryMatrix {
  Index rows, columns;
  bool by_rows;
};

/// Whether the library can read these strides; `m` then says how.
bool library_matrix(Index rows, Index columns, MatrixStrides strides, LibraryMatrix& m);

/// c = a b. Only with matrices that library_matrix() accepted.
void library_gemm(const LibraryMatrix& ma, const float* a, const LibraryMatrix& mb, const float* b,
                  const LibraryMatrix& mc, float* c);

}  // namespace keelson::kokkos
