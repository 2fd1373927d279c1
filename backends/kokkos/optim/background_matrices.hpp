#pragma once

#include <thread>
#include <vector>

#include "backends/kokkos/optim/matrix_shares.hpp"

namespace keelson::kokkos {

/// A matrix, and what is computed of it; what the numbers mean is up to the function that computes. dst has the stride
/// of src, and `dst_rows` rows. A matrix of no rows has no work.
struct MatrixWork {
  lapack::Matrix matrix;
  std::int64_t dst_rows;
  double epsilon = 0, scale = 1;
  int root = 1;
};

/// Work on copies of matrices, by threads that run while the caller goes on.
class BackgroundMatrices {
 public:
  /// Does the work; `scratch`: memory of MatrixShares.
  using Compute = void (*)(const MatrixWork& work, double* scratch);

  /// `shares`: of the matrices that begin() will get. Must outlive this object.
  BackgroundMatrices(const MatrixShares& shares, Compute compute) : shares_(shares), compute_(compute) {}
  ~BackgroundMatrices() { wait(); }
  BackgroundMatrices(const BackgroundMatrices&) = delete;

  /// Copies the matrices, and begins to work on the copies. Waits for an earlier begin().
  void begin(const std::vector<MatrixWork>& works);
  /// Waits. If begin() had the same work on matrices with the same values, writes the results and returns true. Each
  /// begin() has one take().
  bool take(const std::vector<MatrixWork>& works);

 private:
  void wait();

  const MatrixShares& shares_;
  Compute compute_;
  bool began_ = false;
  std::vector<float> values_;    ///< for each matrix: the copy, then the result
  std::vector<MatrixWork> own_;  ///< within values_
  std::vector<std::byte> scratch_;
  std::vector<std::thread> threads_;
};

}  // namespace keelson::kokkos
