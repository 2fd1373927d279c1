#pragma once

#include "backends/kokkos/matmul/matrix_strides.hpp"
#include "backends/kokkos/matmul/packed_panels.hpp"
#include "engine/ops/eltwise.hpp"

/// c = activation(a b + bias) for large f32 matrices on CPUs. Both operands are packed: the smaller one as a whole, the
/// other block by block in the second cache level, by the thread that needs the block (after Goto & van de Geijn,
/// "Anatomy of high-performance matrix multiplication", 2008; Van Zee & van de Geijn, "BLIS", 2015). Sums do not depend
/// on the number of threads.
namespace keelson::kokkos {

class PackedGemm {
 public:
  /// Whether a product of this size gains by packing; the columns of c must be neighbours.
  static bool suits(Index rows, Index columns, Index depth, MatrixStrides c);

  /// a is rows x depth, b depth x columns, c rows x columns.
  PackedGemm(Index rows, Index columns, Index depth, MatrixStrides a, MatrixStrides b, MatrixStrides c);

  std::size_t scratch_bytes() const;
  std::string name() const;

  struct Bias {
    const float* values = nullptr;  ///< null: none
    MatrixStrides stride{0, 1};
  };
  void run(const char* label, const float* a, const float* b, const Bias& bias, const ops::EltwiseParams& activation,
           float* c, void* scratch) const;

 private:
  struct Scratch;
  Scratch divide(void* scratch) const;

  Index rows_, columns_, depth_;
  MatrixStrides a_, b_, c_;
  PanelsOfColumns panels_;
  Index workers_;
  Index depth_of_block_;
  Index rows_of_block_, row_blocks_, column_blocks_;
  bool keeps_a_;  ///< packs all of a first, and b in blocks; else the other way round
};

}  // namespace keelson::kokkos
