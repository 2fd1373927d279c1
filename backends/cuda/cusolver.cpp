#include "backends/cuda/cusolver.hpp"

#include <algorithm>
#include <utility>

#include "backends/cuda/instance.hpp"

namespace keelson::cuda {

namespace {

/// What cudaMalloc aligns to, and cublasLt and cuSOLVER expect.
constexpr std::size_t gpu_alignment = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + gpu_alignment - 1) / gpu_alignment * gpu_alignment; }

constexpr auto lower = CUBLAS_FILL_MODE_LOWER;
constexpr auto with_vectors = CUSOLVER_EIG_MODE_VECTOR;

}  // namespace

std::string StatusTraits<cusolverStatus_t>::decode(cusolverStatus_t s) {
  const char* name = "cuSOLVER's status";
  switch (s) {
    case CUSOLVER_STATUS_NOT_INITIALIZED:
      name = "CUSOLVER_STATUS_NOT_INITIALIZED";
      break;
    case CUSOLVER_STATUS_ALLOC_FAILED:
      name = "CUSOLVER_STATUS_ALLOC_FAILED";
      break;
    case CUSOLVER_STATUS_INVALID_VALUE:
      name = "CUSOLVER_STATUS_INVALID_VALUE";
      break;
    case CUSOLVER_STATUS_ARCH_MISMATCH:
      name = "CUSOLVER_STATUS_ARCH_MISMATCH";
      break;
    case CUSOLVER_STATUS_EXECUTION_FAILED:
      name = "CUSOLVER_STATUS_EXECUTION_FAILED";
      break;
    case CUSOLVER_STATUS_INTERNAL_ERROR:
      name = "CUSOLVER_STATUS_INTERNAL_ERROR";
      break;
    case CUSOLVER_STATUS_NOT_SUPPORTED:
      name = "CUSOLVER_STATUS_NOT_SUPPORTED";
      break;
    default:
      break;
  }
  return fmt::format("{} ({})", name, static_cast<int>(s));
}

Cusolver::Cusolver(cudaStream_t stream) {
  cusolverDnHandle_t h = nullptr;
  check(cusolverDnCreate(&h), "cusolverDnCreate");
  handle_ = Owner<cusolverDnHandle_t, cusolverDnDestroy>(h);
  check(cusolverDnSetStream(h, stream), "cusolverDnSetStream");
}

Cusolver& Library::cusolver() {
  const auto stream = current_stream();
  const std::scoped_lock lock(mutex_);
  auto& entry = cusolver_[stream];
  if (!entry) entry = std::make_shared<Cusolver>(stream);
  return *entry;
}

SymmetricSolver::SymmetricSolver(LibraryPtr library, const std::vector<std::int64_t>& rows, bool inverts)
    : library_(std::move(library)), product_(make_lt_matmul(CUBLAS_COMPUTE_64F, CUDA_R_64F)), states_(rows.size()) {
  const cublasOperation_t transposed = CUBLAS_OP_T;
  check(cublasLtMatmulDescSetAttribute(product_.get(), CUBLASLT_MATMUL_DESC_TRANSB, &transposed, sizeof transposed),
        "cublasLtMatmulDescSetAttribute of a transposed matrix");
  for (const std::int64_t n : rows) {
    if (workspaces_.contains(n)) continue;
    const auto handle = library_->cusolver().handle();
    const int size = static_cast<int>(n);
    auto* const any = reinterpret_cast<double*>(gpu_alignment);  // is not read
    Workspace& w = workspaces_[n];
    check(cusolverDnDsyevd_bufferSize(handle, with_vectors, lower, size, any, size, any, &w.eigen),
          "cusolverDnDsyevd_bufferSize of {} rows", n);
    if (inverts) {
      check(cusolverDnDpotrf_bufferSize(handle, lower, size, any, size, &w.factor),
            "cusolverDnDpotrf_bufferSize of {} rows", n);
      check(cusolverDnDpotri_bufferSize(handle, lower, size, any, size, &w.invert),
            "cusolverDnDpotri_bufferSize of {} rows", n);
    }
    layouts_.emplace(n, make_lt_layout(CUDA_R_64F, static_cast<std::uint64_t>(n), static_cast<std::uint64_t>(n), n));
    const auto doubles = static_cast<std::size_t>(n);
    const auto work = static_cast<std::size_t>(std::max({w.eigen, w.factor, w.invert, 1}));
    matrix_bytes_ = std::max(matrix_bytes_, aligned(doubles * doubles * sizeof(double)));
    values_bytes_ = std::max(values_bytes_, aligned(doubles * sizeof(double)));
    work_bytes_ = std::max(work_bytes_, aligned(std::max(work, doubles * doubles) * sizeof(double)));
  }
}

std::size_t SymmetricSolver::scratch_bytes() const {
  return gpu_alignment + aligned(states_ * sizeof(MatrixState)) + matrix_bytes_ + values_bytes_ + work_bytes_;
}

SymmetricSolver::Memory SymmetricSolver::memory(void* scratch) const {
  auto* at = reinterpret_cast<char*>(aligned(reinterpret_cast<std::uintptr_t>(scratch)));
  const auto take = [&at](std::size_t bytes) { return std::exchange(at, at + bytes); };
  auto* const states = reinterpret_cast<MatrixState*>(take(aligned(states_ * sizeof(MatrixState))));
  auto* const a = reinterpret_cast<double*>(take(matrix_bytes_));
  auto* const values = reinterpret_cast<double*>(take(values_bytes_));
  return {states, a, values, take(work_bytes_)};
}

void SymmetricSolver::decompose(const SymmetricMatrix& m, MatrixState* state, const Memory& memory) const {
  take_triangle(m, state, false, memory.a);
  const int n = static_cast<int>(m.n);
  check(cusolverDnDsyevd(library_->cusolver().handle(), with_vectors, lower, n, memory.a, n, memory.values,
                         static_cast<double*>(memory.work), workspaces_.at(m.n).eigen, &state->info),
        "cusolverDnDsyevd of {} rows", n);
}

void SymmetricSolver::multiply_by_transpose(std::int64_t n, const double* a, double* c) const {
  const double one = 1, zero = 0;
  const auto layout = layouts_.at(n).get();
  // Without an algorithm, cublasLt takes one without a workspace: its sums are in a fixed order.
  check(cublasLtMatmul(library_->lt.get(), product_.get(), &one, a, layout, a, layout, &zero, c, layout, c, layout,
                       nullptr, nullptr, 0, current_stream()),
        "cublasLtMatmul of {} rows in f64", n);
}

void SymmetricSolver::inverse_root(const SymmetricMatrix& m, int root, MatrixState* state, const Memory& memory) const {
  decompose(m, state, memory);
  scale_vectors(m.n, root, state, memory.values, memory.a);
  auto* const c = static_cast<double*>(memory.work);
  multiply_by_transpose(m.n, memory.a, c);
  write_symmetric(m, c, state, false);
}

void SymmetricSolver::eigenvectors(const SymmetricMatrix& m, MatrixState* state, const Memory& memory) const {
  decompose(m, state, memory);
  write_vectors(m, memory.a, memory.values, state);
}

void SymmetricSolver::inverse(const SymmetricMatrix& m, MatrixState* state, const Memory& memory) const {
  take_triangle(m, state, true, memory.a);
  const int n = static_cast<int>(m.n);
  const Workspace& w = workspaces_.at(m.n);
  const auto handle = library_->cusolver().handle();
  auto* const work = static_cast<double*>(memory.work);
  check(cusolverDnDpotrf(handle, lower, n, memory.a, n, work, w.factor, &state->info), "cusolverDnDpotrf of {} rows",
        n);
  // Also after a failure, of which the host does not know: nobody reads the result then.
  check(cusolverDnDpotri(handle, lower, n, memory.a, n, work, w.invert, &state->inverse_info),
        "cusolverDnDpotri of {} rows", n);
  write_symmetric(m, memory.a, state, true);
}

}  // namespace keelson::cuda
