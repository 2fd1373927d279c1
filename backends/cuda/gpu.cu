#include <Kokkos_Core.hpp>

#include "backends/cuda/gpu.hpp"

namespace keelson::cuda {

namespace {

__global__ void nothing() {}

}  // namespace

int compute_device() { return Kokkos::Cuda().cuda_device(); }

cudaError_t try_kernels(int device) {
  if (const auto status = cudaSetDevice(device); status != cudaSuccess) return status;
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, nothing);
}

std::string built_architectures() {
  std::string text;
  for (const int version : {__CUDA_ARCH_LIST__}) {  // nvcc's own list, e.g. 800,900
    if (!text.empty()) text += ", ";
    text += "sm_" + std::to_string(version / 10);
  }
  return text;
}

}  // namespace keelson::cuda
