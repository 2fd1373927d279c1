#pragma once

#include <optional>

#include "backends/kokkos/matmul/matrix_strides.hpp"
#include "backends/kokkos/matmul/packed_gemm.hpp"
#include "engine/ops/eltwise.hpp"

/// c = activation(a b + bias) for matrices with any strides, by the register tiles of tile.hpp, or packed_gemm.hpp.
namespace keelson::kokkos {

/// A product of a (rows x depth) and b (depth x columns), prepared once; c is rows x columns.
class Gemm {
 public:
  /// `uses`: how often the same b is multiplied; above 1, b is packed once.
  Gemm(Index rows, Index columns, Index depth, MatrixStrides a, MatrixStrides b, MatrixStrides c, Index uses = 1);

  std::size_t scratch_bytes() const;
  std::size_t packed_bytes() const;  ///< 0: run() reads b itself
  void pack(const float* b, float* packed) const;
  /// bias: one per column of c, or null. packed: the result of pack(), null if packed_bytes() is 0.
  void run(const char* label, const float* a, const float* b, const float* bias, const ops::EltwiseParams& activation,
           float* c, float* scratch, const float* packed = nullptr) const;
  std::string name() const;
  bool is_packed() const { return packed_.has_value(); }  ///< whether packed_gemm.hpp computes the product

 private:
  void run_library(const float* a, const float* b, const float* bias, const ops::EltwiseParams& activation,
                   float* c) const;

  bool library_ = false;  ///< Kokkos Kernels computes the product
  bool swapped_;          ///< computes the transpose, b^T a^T, which needs less copying
  Index rows_, columns_, depth_;
  MatrixStrides a_, b_, c_;
  Index lanes_, panels_;
  bool copy_;                         ///< copies b into panels of `lanes` columns
  bool keep_;                         ///< copies once for all uses
  Index splits_, depth_of_split_;     ///< parts of the reduction: summed separately, then added in order
  std::optional<PackedGemm> packed_;  ///< computes the product
};

}  // namespace keelson::kokkos
