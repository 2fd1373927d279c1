#include "backends/cuda/error.hpp"

namespace keelson::cuda {

namespace {

/// Advice about failures that have a usual cause.
std::string advice(cudaError_t s) {
  switch (s) {
    case cudaErrorMemoryAllocation:
      return "; try a smaller batch or input, or more GPUs, and see with nvidia-smi whether another process holds "
             "memory of this one";
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
      return "; see what nvidia-smi says on this machine, or use --device cpu in a build for CPUs";
    case cudaErrorNoKernelImageForDevice:
      return "; this build has no kernels for this GPU: build with its architecture (CMAKE_CUDA_ARCHITECTURES)";
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorMisalignedAddress:
    case cudaErrorAssert:
      return "; a kernel that was started earlier broke: run with CUDA_LAUNCH_BLOCKING=1 or under compute-sanitizer to "
             "learn which";
    default:
      return "";
  }
}

}  // namespace

std::string StatusTraits<cudaError_t>::decode(cudaError_t s) {
  return fmt::format("{} ({}): {}{}", cudaGetErrorName(s), static_cast<int>(s), cudaGetErrorString(s), advice(s));
}

std::string StatusTraits<cublasStatus_t>::decode(cublasStatus_t s) {
  return fmt::format("{} ({}){}", cublasLtGetStatusName(s), static_cast<int>(s),
                     s == CUBLAS_STATUS_ALLOC_FAILED ? advice(cudaErrorMemoryAllocation) : "");
}

std::string this_gpu() {
  int device = 0;
  cudaDeviceProp properties;
  char bus[32] = "";
  if (cudaGetDevice(&device) != cudaSuccess || cudaGetDeviceProperties(&properties, device) != cudaSuccess) {
    cudaGetLastError();  // an error that is reported here must not be reported by the next call again
    return "no GPU";
  }
  if (cudaDeviceGetPCIBusId(bus, sizeof bus, device) != cudaSuccess) cudaGetLastError();
  return fmt::format("GPU {} ({}, {})", device, properties.name, bus);
}

std::string failure(const std::string& what, const std::string& decoded) {
  cudaGetLastError();  // clear an error that does not break the context, so that the next call does not report it again
  return fmt::format("{} failed on {}: {}", what, this_gpu(), decoded);
}

}  // namespace keelson::cuda
