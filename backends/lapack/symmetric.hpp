#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

/// Symmetric matrices by LAPACK. A build without LAPACK has these functions, too, but only available() may be called.
namespace keelson::lapack {

/// Whether this build has LAPACK.
bool available();

/// f64 numbers that inverse_root() needs as scratch memory for a matrix of n rows.
std::size_t scratch_doubles(std::int64_t n);
/// Those that inverse() needs.
std::size_t scratch_doubles_of_inverse(std::int64_t n);

/// A matrix of n rows, and where its power goes: f32, by rows, `stride` elements from row to row. dst is no part of
/// src.
struct Matrix {
  const float* src;
  float* dst;
  std::int64_t n, stride;
};

/// dst = (scale src + epsilon I)^(-1 / root), by dsyevd, as ops::InverseRoots says; the elements of other matrices do
/// not change. Only the lower triangle of src is read. A matrix with a value that is not finite, or for which LAPACK
/// finds no eigenvalues, gives NaN. `scratch`: scratch_doubles(n). The library works in the calling thread while a
/// OneThread is alive.
void inverse_root(const Matrix& m, double scale, double epsilon, int root, double* scratch);

/// The first n rows of dst: the eigenvectors of src, in the order of their eigenvalues; row n: the eigenvalues, where
/// those below 2^-24 times the largest one count as that. Else as inverse_root().
void eigenvectors(const Matrix& m, double* scratch);

/// dst = (src + epsilon I)^-1, by dpotrf and dpotri; by inverse_root(), with memory that it allocates, if the matrix is
/// not positive definite. `scratch`: scratch_doubles_of_inverse(n). Else as inverse_root().
void inverse(const Matrix& m, double epsilon, double* scratch);

/// Whether several threads of the process may call the functions above at the same time. Not if LAPACK comes from an
/// OpenBLAS that was built without threads.
bool takes_several_threads();

/// Lets OpenBLAS and MKL work in the calling thread alone, where the process has them. Results then do not depend on
/// the number of threads, and the library's threads do not compete with ours. Several threads may have one each; the
/// numbers of threads of before come back at the end of the last. Without takes_several_threads() a second one waits
/// for the end of the first.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;

 private:
  int mkl_ = 0;
  std::unique_lock<std::mutex> alone_;
};

}  // namespace keelson::lapack
