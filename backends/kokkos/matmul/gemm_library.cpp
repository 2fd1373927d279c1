#include "backends/kokkos/matmul/gemm_library.hpp"

#ifdef KEELSON_HAVE_KOKKOS_KERNELS
#include <KokkosBlas3_gemm.hpp>
#endif

namespace keelson::kokkos {

#ifdef KEELSON_HAVE_KOKKOS_KERNELS

namespace {

// All builds of Kokkos Kernels have kernels for column-major matrices. A row-major matrix is the transpose of a
// column-major matrix.
template <class T>
using Columns = Kokkos::View<T**, Kokkos::LayoutLeft, Space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

template <class T>
Columns<T> stored_matrix(const LibraryMatrix& m, T* data) {
  const auto rows = static_cast<std::size_t>(m.rows), columns = static_cast<std::size_t>(m.columns);
  return m.by_rows ? Columns<T>(data, columns, rows) : Columns<T>(data, rows, columns);
}

}  // namespace

bool library_matrix(Index rows, Index columns, MatrixStrides s, LibraryMatrix& m) {
  // The stride of an extent of 1 does not matter.
  const bool by_rows = (s.column == 1 || columns == 1) && (s.row == columns || rows == 1);
  const bool by_columns = (s.row == 1 || rows == 1) && (s.column == rows || columns == 1);
  m = {rows, columns, by_rows};
  return (by_rows || by_columns) && rows > 0 && columns > 0;
}

void library_gemm(const LibraryMatrix& ma, const float* a, const LibraryMatrix& mb, const float* b,
                  const LibraryMatrix& mc, float* c) {
  const auto va = stored_matrix(ma, a), vb = stored_matrix(mb, b);
  const auto vc = stored_matrix(mc, c);
  const auto straight = [](bool by_rows) { return by_rows ? "T" : "N"; };
  const auto turned = [](bool by_rows) { return by_rows ? "N" : "T"; };
  if (mc.by_rows)  // c^T = b^T a^T
    KokkosBlas::gemm(space(), turned(mb.by_rows), turned(ma.by_rows), 1.0f, vb, va, 0.0f, vc);
  else
    KokkosBlas::gemm(space(), straight(ma.by_rows), straight(mb.by_rows), 1.0f, va, vb, 0.0f, vc);
}

#else

bool library_matrix(Index, Index, MatrixStrides, LibraryMatrix&) { return false; }
void library_gemm(const LibraryMatrix&, const float*, const LibraryMatrix&, const float*, const LibraryMatrix&,
                  float*) {
  fail("this build has no Kokkos Kernels");
}

#endif

}  // namespace keelson::kokkos
