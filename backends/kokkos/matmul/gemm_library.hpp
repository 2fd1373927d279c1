#pragma once

#include "backends/kokkos/matmul/gemm.hpp"

/// Kokkos Kernels' dense product, which calls the vendor's BLAS. In a build without Kokkos Kernels no matrix is
/// accepted.
namespace keelson::kokkos {

/// A rows x columns matrix whose elements are dense, row-major or column-major.
struct LibraryMatrix {
  Index rows, columns;
  bool by_rows;
};

/// Whether the library can read these strides; if so, sets `m`.
bool library_matrix(Index rows, Index columns, MatrixStrides strides, LibraryMatrix& m);

/// c = a b. Only for matrices that library_matrix() accepted.
void library_gemm(const LibraryMatrix& ma, const float* a, const LibraryMatrix& mb, const float* b,
                  const LibraryMatrix& mc, float* c);

}  // namespace keelson::kokkos
