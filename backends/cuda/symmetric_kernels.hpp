#pragma once

#include <cstdint>

#include "engine/ops/kfac.hpp"
#include "engine/ops/shampoo.hpp"

/// Keelson's own kernels around cuSOLVER's calls for symmetric matrices, on the current instance's stream. All pointers
/// are to the GPU's memory. This header does not need nvcc.
namespace keelson::cuda {

/// A matrix of n rows, and where its result goes: f32, by rows, `stride` elements from row to row.
struct SymmetricMatrix {
  const float* src;
  float* dst;
  std::int64_t n, stride;
};

/// What is known of a matrix, in the GPU's memory.
struct MatrixState {
  double scale;      ///< of the matrix
  double shift;      ///< is added to the diagonal or to the eigenvalues
  int is_empty;      ///< results are not written
  int is_bad;        ///< a value is not finite: results are NaN
  int info;          ///< cuSOLVER's of the first call: 0 if it succeeded
  int inverse_info;  ///< that of the second call

  /// After SymmetricSolver::inverse(): the matrix is not positive definite.
  constexpr bool has_no_inverse() const { return is_empty == 0 && is_bad == 0 && (info != 0 || inverse_info != 0); }
};

/// The states of all matrices of ops::InverseRoots: scale = 1 / correction, shift = epsilon.
void prepare_roots(MatrixState* states, const ops::InverseRootsDesc& d, const ops::StepParams* step_params);

/// Numbers that diagonal_sum() needs as scratch memory.
std::int64_t diagonal_sum_scratch(const ops::DiagonalBlocks& blocks);
/// *result = the sum of the diagonals of all blocks, in f64 and in a fixed order. `blocks`: f32, DiagonalBlocks::whole.
void diagonal_sum(const float* blocks, const ops::DiagonalBlocks& sizes, double* scratch, double* result);

/// Of a matrix of ops::FactorInverses.
struct InverseSettings {
  float damping;                     ///< FactorInversesDesc::damping
  bool eigen;                        ///< FactorInversesDesc::eigen
  const double* mine;                ///< the diagonal's sum of the matrix' factor
  const double* other;               ///< and of the other factor of the layer
  std::int64_t my_rows, other_rows;  ///< of these factors
};
/// The state of a matrix: shift as factored damping says. It is empty if a factor is zero, or if the matrix is zero and
/// there is no damping.
void prepare_inverse(MatrixState* state, const InverseSettings& settings, const SymmetricMatrix& m);

/// a: scale src, both triangles, with the shift on the diagonal if `shifts`. A value that is not finite counts as zero,
/// and makes the matrix bad; an empty matrix counts as I: cuSOLVER gets matrices that it can work with.
void take_triangle(const SymmetricMatrix& m, MatrixState* state, bool shifts, double* a);
/// Multiplies vector k of `a`, which has one after the other, by (value k + shift)^(-1 / (2 root)). Values below 2^-24
/// times the last one count as that.
void scale_vectors(std::int64_t n, int root, const MatrixState* state, const double* values, double* a);
/// dst from the lower triangle of a matrix whose columns lie one after the other. `of_inverse`: dst does not change if
/// the matrix has no inverse; else it is NaN if cuSOLVER's first call failed.
void write_symmetric(const SymmetricMatrix& m, const double* c, const MatrixState* state, bool of_inverse);
/// n + 1 rows of dst: the vectors, and the values as scale_vectors() counts them.
void write_vectors(const SymmetricMatrix& m, const double* vectors, const double* values, const MatrixState* state);

}  // namespace keelson::cuda
