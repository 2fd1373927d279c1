#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <string>
#include <type_traits>

#include "backends/common/unsupported.hpp"
#include "engine/base/error.hpp"

/// Every status that a vendor's function returns goes through check().
namespace keelson::cuda {

/// How the status of a library is read: which status means success, and the library's text for the others. Other
/// libraries specialise the template beside their handles.
template <class Status>
struct StatusTraits;

template <>
struct StatusTraits<cudaError_t> {
  static constexpr cudaError_t good = cudaSuccess;
  static bool is_unsupported(cudaError_t) { return false; }  ///< the CUDA runtime has no such status
  static bool is_out_of_memory(cudaError_t s) { return s == cudaErrorMemoryAllocation; }
  static std::string decode(cudaError_t s);  ///< "cudaErrorMemoryAllocation (2): out of memory", with advice
};
template <>
struct StatusTraits<cublasStatus_t> {
  static constexpr cublasStatus_t good = CUBLAS_STATUS_SUCCESS;
  static bool is_unsupported(cublasStatus_t s) {
    return s == CUBLAS_STATUS_NOT_SUPPORTED || s == CUBLAS_STATUS_INVALID_VALUE || s == CUBLAS_STATUS_ARCH_MISMATCH;
  }
  static bool is_out_of_memory(cublasStatus_t s) { return s == CUBLAS_STATUS_ALLOC_FAILED; }
  static std::string decode(cublasStatus_t s);
};

/// "GPU 1 (NVIDIA H200, 0000:1b:00.0)", the GPU that this thread uses; "no GPU" if there is none.
std::string this_gpu();

/// "WHAT failed on GPU ...: STATUS". Clears the runtime's last error.
std::string failure(const std::string& what, const std::string& decoded);

/// Throws unless `status` means success: backends::Unsupported if the library does not support the request, OutOfMemory
/// if memory is missing, else Error (the device or the library is at fault). `what` names the call and its most
/// important arguments, e.g. check(cudaMalloc(&p, n), "cudaMalloc of {} bytes for {}", n, label).
template <class Status, class... A>
void check(Status status, fmt::format_string<A...> what, A&&... args) {
  if (status == StatusTraits<Status>::good) [[likely]]
    return;
  const auto decoded = StatusTraits<Status>::decode(status);  // before another call replaces the library's last message
  const auto text = failure(fmt::format(what, std::forward<A>(args)...), decoded);
  if (StatusTraits<Status>::is_unsupported(status)) throw backends::Unsupported(text);
  if (StatusTraits<Status>::is_out_of_memory(status)) throw OutOfMemory(text);
  throw Error(text);
}

}  // namespace keelson::cuda
