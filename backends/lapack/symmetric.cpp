#include "backends/lapack/symmetric.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/base/error.hpp"

#ifdef KEELSON_HAVE_LAPACK
// Fortran's calling convention of gfortran, ifort and flang: everything by reference, lengths of texts at the end.
extern "C" {
void dsyevd_(const char* jobz, const char* uplo, const int* n, double* a, const int* lda, double* w, double* work,
             const int* lwork, int* iwork, const int* liwork, int* info, std::size_t, std::size_t);
void dpotrf_(const char* uplo, const int* n, double* a, const int* lda, int* info, std::size_t);
void dpotri_(const char* uplo, const int* n, double* a, const int* lda, int* info, std::size_t);
void dsyrk_(const char* uplo, const char* trans, const int* n, const int* k, const double* alpha, const double* a,
            const int* lda, const double* beta, double* c, const int* ldc, std::size_t, std::size_t);
}
#endif

namespace keelson::lapack {

namespace {

std::size_t work_doubles(std::int64_t n) { return static_cast<std::size_t>(1 + 6 * n + 2 * n * n); }
std::size_t work_integers(std::int64_t n) { return static_cast<std::size_t>(3 + 5 * n); }

template <class F>
F* loaded(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_DEFAULT, name));
}

// What OpenBLAS and MKL have for this; null where the process does not have the library.
using SetThreads = void(int);
using GetThreads = int();
using SwapThreads = int(int);
SetThreads* set_openblas() {
  static SetThreads* const f = loaded<SetThreads>("openblas_set_num_threads");
  return f;
}
GetThreads* get_openblas() {
  static GetThreads* const f = loaded<GetThreads>("openblas_get_num_threads");
  return f;
}
SwapThreads* swap_mkl() {
  static SwapThreads* const f = loaded<SwapThreads>("MKL_Set_Num_Threads_Local");
  return f;
}

/// OpenBLAS has one number of threads for the whole process.
struct {
  std::mutex mutex;
  int count = 0, threads_before = 0;
} openblas_users;

/// Held while a library works that is not for several threads.
std::mutex library;

}  // namespace

bool takes_several_threads() {
  // An OpenBLAS without threads of its own ("serial") need not lock what its calls share, and gave wrong bits here.
  static GetThreads* const parallel = loaded<GetThreads>("openblas_get_parallel");
  return !parallel || parallel() != 0;
}

OneThread::OneThread() {
  if (!takes_several_threads()) alone_ = std::unique_lock(library);
  {
    const std::lock_guard lock(openblas_users.mutex);
    if (openblas_users.count++ == 0 && set_openblas() && get_openblas()) {
      openblas_users.threads_before = get_openblas()();
      if (openblas_users.threads_before > 1) set_openblas()(1);
    }
  }
  if (swap_mkl()) mkl_ = swap_mkl()(1);  // of this thread alone
}

OneThread::~OneThread() {
  if (swap_mkl()) swap_mkl()(mkl_);
  const std::lock_guard lock(openblas_users.mutex);
  if (--openblas_users.count == 0 && openblas_users.threads_before > 1) set_openblas()(openblas_users.threads_before);
}

std::size_t scratch_doubles(std::int64_t n) {
  return static_cast<std::size_t>(n * n + n) + work_doubles(n) + (work_integers(n) + 1) / 2;
}

std::size_t scratch_doubles_of_inverse(std::int64_t n) { return static_cast<std::size_t>(n * n); }

#ifdef KEELSON_HAVE_LAPACK

bool available() { return true; }

namespace {

/// f32 rounds by this part of a number.
constexpr double f32_rounding = 0x1p-24;

/// `a`: scale src, both triangles. Returns whether all values are finite.
bool take_lower_triangle(const Matrix& m, double scale, double* a) {
  bool finite = true;
  for (std::int64_t i = 0; i < m.n; ++i)
    for (std::int64_t j = 0; j <= i; ++j) {
      const double v = scale * static_cast<double>(m.src[i * m.stride + j]);
      finite = finite && std::isfinite(v);
      a[i * m.n + j] = a[j * m.n + i] = v;
    }
  return finite;
}

void fill_with_nan(const Matrix& m, std::int64_t rows) {
  for (std::int64_t i = 0; i < rows; ++i)
    std::fill_n(m.dst + i * m.stride, m.n, std::numeric_limits<float>::quiet_NaN());
}
void fill_with_nan(const Matrix& m) { fill_with_nan(m, m.n); }

/// a: scale src, and then the eigenvectors, one after the other; values: the eigenvalues, which rise. Returns whether
/// there are any.
bool decompose(const Matrix& m, double scale, double* a, double* values, double* work) {
  if (!take_lower_triangle(m, scale, a)) return false;
  const int n = static_cast<int>(m.n), doubles = static_cast<int>(work_doubles(m.n)),
            integers = static_cast<int>(work_integers(m.n));
  auto* const iwork = reinterpret_cast<int*>(work + doubles);
  int info = 0;
  dsyevd_("V", "L", &n, a, &n, values, work, &doubles, iwork, &integers, &info, 1, 1);
  return info == 0;
}

/// dst from the lower triangle of a matrix whose columns lie one after the other.
void write_symmetric(const Matrix& m, const double* c) {
  for (std::int64_t j = 0; j < m.n; ++j)
    for (std::int64_t i = j; i < m.n; ++i)
      m.dst[i * m.stride + j] = m.dst[j * m.stride + i] = static_cast<float>(c[j * m.n + i]);
}

}  // namespace

void inverse_root(const Matrix& m, double scale, double epsilon, int root, double* scratch) {
  double *const a = scratch, *const values = a + m.n * m.n, *const work = values + m.n;
  if (!decompose(m, scale, a, values, work)) return fill_with_nan(m);
  const int n = static_cast<int>(m.n);

  // dst = sum of f(value k) (vector k)(vector k)^T.
  const double least = std::max(f32_rounding * values[m.n - 1], 0.0);
  for (std::int64_t k = 0; k < m.n; ++k) {
    const double factor = std::pow(std::max(values[k], least) + epsilon, -0.5 / root);
    for (std::int64_t i = 0; i < m.n; ++i) a[k * m.n + i] *= factor;
  }
  const double one = 1, zero = 0;
  double* const c = work;
  dsyrk_("L", "N", &n, &n, &one, a, &n, &zero, c, &n, 1, 1);
  write_symmetric(m, c);
}

void eigenvectors(const Matrix& m, double* scratch) {
  double *const a = scratch, *const values = a + m.n * m.n;
  if (!decompose(m, 1, a, values, values + m.n)) return fill_with_nan(m, m.n + 1);
  const double least = std::max(f32_rounding * values[m.n - 1], 0.0);
  for (std::int64_t k = 0; k < m.n; ++k) {
    for (std::int64_t i = 0; i < m.n; ++i) m.dst[k * m.stride + i] = static_cast<float>(a[k * m.n + i]);
    m.dst[m.n * m.stride + k] = static_cast<float>(std::max(values[k], least));
  }
}

void inverse(const Matrix& m, double epsilon, double* scratch) {
  if (!take_lower_triangle(m, 1, scratch)) return fill_with_nan(m);
  for (std::int64_t i = 0; i < m.n; ++i) scratch[i * (m.n + 1)] += epsilon;
  const int n = static_cast<int>(m.n);
  int info = 0;
  dpotrf_("L", &n, scratch, &n, &info, 1);
  if (info == 0) dpotri_("L", &n, scratch, &n, &info, 1);
  if (info != 0) return inverse_root(m, 1, epsilon, 1, std::vector<double>(scratch_doubles(m.n)).data());
  write_symmetric(m, scratch);
}

#else

bool available() { return false; }

void inverse_root(const Matrix&, double, double, int, double*) { fail("this build has no LAPACK"); }
void eigenvectors(const Matrix& m, double* scratch) { inverse_root(m, 1, 0, 1, scratch); }
void inverse(const Matrix& m, double epsilon, double* scratch) { inverse_root(m, 1, epsilon, 1, scratch); }

#endif

}  // namespace keelson::lapack
