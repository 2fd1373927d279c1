#pragma once

#include <cusolverDn.h>

#include <cstdint>
#include <map>
#include <vector>

#include "backends/cuda/library.hpp"
#include "backends/cuda/symmetric_kernels.hpp"

/// Symmetric matrices in f64 by cuSOLVER, with the results of backends/lapack/symmetric.hpp. This header does not need
/// nvcc.
namespace keelson::cuda {

template <>
struct StatusTraits<cusolverStatus_t> {
  static constexpr cusolverStatus_t good = CUSOLVER_STATUS_SUCCESS;
  static bool is_unsupported(cusolverStatus_t s) {
    return s == CUSOLVER_STATUS_NOT_SUPPORTED || s == CUSOLVER_STATUS_INVALID_VALUE ||
           s == CUSOLVER_STATUS_ARCH_MISMATCH;
  }
  static bool is_out_of_memory(cusolverStatus_t s) { return s == CUSOLVER_STATUS_ALLOC_FAILED; }
  static std::string decode(cusolverStatus_t s);
};

/// cuSOLVER's state for one stream.
class Cusolver {
 public:
  explicit Cusolver(cudaStream_t stream);
  cusolverDnHandle_t handle() const { return handle_.get(); }

 private:
  Owner<cusolverDnHandle_t, cusolverDnDestroy> handle_;
};

/// Powers, eigenvectors and inverses of matrices, one after the other on the current instance's stream. What a function
/// needs to know of a matrix is in the GPU's memory (MatrixState), and so is whether it succeeded, so that the host
/// does not wait; but cuSOLVER itself waits in the search for eigenvalues. Therefore a graph cannot record it.
class SymmetricSolver {
 public:
  /// For matrices of so many rows. `inverts`: inverse() is called, and not inverse_root() or eigenvectors() alone.
  SymmetricSolver(LibraryPtr library, const std::vector<std::int64_t>& rows, bool inverts);

  /// The parts of the scratch memory: a state for each matrix, and memory for one matrix after the other.
  struct Memory {
    MatrixState* states;
    double *a, *values;  ///< a matrix; its eigenvalues
    void* work;          ///< cuSOLVER's, or another matrix
  };
  std::size_t scratch_bytes() const;              ///< of memory()
  Memory memory(void* scratch) const;             ///< each part begins at a multiple of 256 bytes
  std::size_t states() const { return states_; }  ///< number of matrices

  /// dst = (scale src + shift I)^(-1 / root), by eigenvalues. NaN where there are none.
  void inverse_root(const SymmetricMatrix& m, int root, MatrixState* state, const Memory& memory) const;
  /// The first n rows of dst: the eigenvectors of scale src; row n: the eigenvalues. NaN where there are none.
  void eigenvectors(const SymmetricMatrix& m, MatrixState* state, const Memory& memory) const;
  /// dst = (scale src + shift I)^-1, by Cholesky's method. dst does not change if the matrix is not positive definite:
  /// then MatrixState::has_no_inverse() is true.
  void inverse(const SymmetricMatrix& m, MatrixState* state, const Memory& memory) const;

 private:
  /// Numbers that cuSOLVER needs for a matrix.
  struct Workspace {
    int eigen = 0, factor = 0, invert = 0;
  };
  void decompose(const SymmetricMatrix& m, MatrixState* state, const Memory& memory) const;
  /// c = a a^T, column by column.
  void multiply_by_transpose(std::int64_t n, const double* a, double* c) const;

  LibraryPtr library_;
  LtMatmul product_;
  std::map<std::int64_t, Workspace> workspaces_;  ///< by the number of rows
  std::map<std::int64_t, LtLayout> layouts_;      ///< by the number of rows
  std::size_t states_;
  std::size_t matrix_bytes_ = 0, values_bytes_ = 0, work_bytes_ = 0;
};

}  // namespace keelson::cuda
