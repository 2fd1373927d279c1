#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

/// The GPU of this process: its number and its properties.
namespace keelson::cuda {

struct Gpu {
  int device = 0;        ///< CUDA's number of the GPU in this process
  std::string name;      ///< "NVIDIA H200"
  int architecture = 0;  ///< 10 * major + minor of the compute capability, e.g. 90
  int multiprocessors = 0;
  int threads = 0;        ///< threads that run at once
  std::size_t bytes = 0;  ///< size of the memory
  std::string bus;        ///< "0000:1b:00.0"
};

Gpu gpu_in_use();  ///< the GPU that Kokkos was started on; throws Error if its properties cannot be read

// These functions need Kokkos or nvcc (gpu.cu).

int compute_device();  ///< the GPU that Kokkos was started on
/// Makes `device` this thread's GPU and checks that this build's kernels load there.
cudaError_t try_kernels(int device);
std::string built_architectures();  ///< "sm_80, sm_90"

}  // namespace keelson::cuda
