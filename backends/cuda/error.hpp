#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <string>
#include <type_traits>

#include "engine/base/error.hpp"

/// Every status that a vendor's function returns goes through check().
namespace keelson::cuda {

/// How a library's status is read: which one is good, and what the others mean, in the library's own words. Other
/// libraries specialise it beside their handles.
template <class Status>
struct StatusTraits;

template <>
struct StatusTraits<cudaError_t> {
  static constexpr cudaError_t good = cudaSuccess;
  static std::string decode(cudaError_t s);  ///< "cudaErrorMemoryAllocation (2): out of memory", with advice
};
template <>
struct StatusTraits<cublasStatus_t> {
  static constexpr cublasStatus_t good = CUBLAS_STATUS_SUCCESS;
  static std::string decode(cublasStatus_t s);
};

/// "GPU 1 (NVIDIA H200, 0000:1b:00.0)", the one that this thread uses; "no GPU" where there is none.
std::string this_gpu();

/// What a call of cublasLt failed with. While a plan is being made the op then goes to the next backend.
class CublasError : public Error {
 public:
  using Error::Error;
};

/// "WHAT failed on GPU ...: STATUS". The runtime forgets its last error.
std::string failure(const std::string& what, const std::string& decoded);

/// Throws Error unless `status` is good; CublasError where it is cublasLt's. `what` is the call with what matters of
/// its arguments, e.g. check(cudaMalloc(&p, n), "cudaMalloc of {} bytes for {}", n, label).
template <class Status, class... A>
void check(Status status, fmt::format_string<A...> what, A&&... args) {
  if (status == StatusTraits<Status>::good) [[likely]]
    return;
  const auto decoded = StatusTraits<Status>::decode(status);  // before other calls replace the library's last message
  const auto text = failure(fmt::format(what, std::forward<A>(args)...), decoded);
  if constexpr (std::is_same_v<Status, cublasStatus_t>)
    throw CublasError(text);
  else
    throw Error(text);
}

}  // namespace keelson::cuda
