#pragma once

#include <utility>

#include "backends/cuda/error.hpp"

/// One owner type per kind of handle. An owner is empty or owns a handle, can be moved, and destroys the handle in its
/// destructor. Failures of the destruction are not reported, since nothing can be done about them.
namespace keelson::cuda {

template <class Handle, auto destroy>
class Owner {
 public:
  Owner() = default;
  explicit Owner(Handle handle) : handle_(handle) {}
  ~Owner() {
    if (handle_) (void)destroy(handle_);
  }
  Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, Handle{})) {}
  Owner& operator=(Owner&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  Handle get() const { return handle_; }
  explicit operator bool() const { return handle_ != Handle{}; }

 private:
  Handle handle_{};
};

using Stream = Owner<cudaStream_t, cudaStreamDestroy>;
using Event = Owner<cudaEvent_t, cudaEventDestroy>;
using Graph = Owner<cudaGraph_t, cudaGraphDestroy>;
using GraphExec = Owner<cudaGraphExec_t, cudaGraphExecDestroy>;
using GpuMemory = Owner<void*, cudaFree>;         ///< 256-byte aligned
using PinnedMemory = Owner<void*, cudaFreeHost>;  ///< page-locked host memory
using LtHandle = Owner<cublasLtHandle_t, cublasLtDestroy>;
using LtMatmul = Owner<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using LtLayout = Owner<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using LtPreference = Owner<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

Stream make_stream();  ///< does not synchronise with the legacy default stream
/// another such stream, of high priority: its kernels start before waiting kernels of others
Stream make_urgent_stream();
/// whether all work queued on the stream has ended; `what` names the work in messages
bool is_idle(cudaStream_t stream, const char* what);
Event make_event();  ///< for synchronisation only
Event make_timer();  ///< an event that can be timed
/// Uninitialised memory. `label` names it in messages.
GpuMemory allocate_gpu(std::size_t bytes, const std::string& label);
/// Memory filled with zeros, readable by all GPUs of the process.
PinnedMemory allocate_pinned(std::size_t bytes, const std::string& label);
LtHandle make_lt_handle();
LtMatmul make_lt_matmul(cublasComputeType_t compute, cudaDataType_t scale);
/// A column-major matrix, as cublasLt expects: columns of `rows` contiguous values, `leading` values apart.
LtLayout make_lt_layout(cudaDataType_t type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading);
LtPreference make_lt_preference();

}  // namespace keelson::cuda
