#include "backends/cuda/gpu.hpp"

#include <cstdlib>

#include "backends/cuda/device.hpp"
#include "backends/cuda/error.hpp"

namespace keelson::cuda {

namespace {

std::string cuda_version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

/// The reason why the driver finds no GPU; empty: the driver finds one.
std::string no_gpu(cudaError_t status, int count) {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess) driver = 0;
  if (driver == 0) return "this machine has no NVIDIA driver (libcuda.so.1); run on a node with GPUs";
  if (status == cudaErrorInsufficientDriver)
    return fmt::format(
        "the NVIDIA driver serves CUDA {} at most, and this build needs {}; use a build with an older CUDA toolkit, or "
        "a node with a newer driver",
        cuda_version(driver), cuda_version(CUDART_VERSION));
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return fmt::format("the NVIDIA driver finds no GPU{}; run on a node with GPUs, and ask the batch system for one",
                       visible ? fmt::format(" (CUDA_VISIBLE_DEVICES is '{}')", visible) : "");
  }
  return status == cudaSuccess ? ""
                               : fmt::format("GPUs cannot be counted: {}", StatusTraits<cudaError_t>::decode(status));
}

std::string architecture_missing(int device) {
  cudaDeviceProp p;
  check(cudaGetDeviceProperties(&p, device), "cudaGetDeviceProperties");
  return fmt::format(
      "{} is of architecture sm_{}{}, and this build has kernels for {}; build with "
      "-DCMAKE_CUDA_ARCHITECTURES={}{}, which needs a toolkit that supports this GPU",
      p.name, p.major, p.minor, built_architectures(), p.major, p.minor);
}

}  // namespace

GpuChoice choose_gpu(int local_rank) {
  int count = 0;
  const auto counted = cudaGetDeviceCount(&count);
  GpuChoice choice;
  choice.refused = no_gpu(counted, count);
  if (choice.refused.empty()) {
    const int device = local_rank % count;
    const auto status = try_kernels(device);
    if (status == cudaSuccess)
      choice.device = device;
    else if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction ||
             status == cudaErrorUnsupportedPtxVersion)
      choice.refused = architecture_missing(device);
    else
      choice.refused =
          fmt::format("GPU {} of {} cannot be used: {}", device, count, StatusTraits<cudaError_t>::decode(status));
  }
  cudaGetLastError();  // an error that is reported here must not be reported by a later call again
  return choice;
}

Gpu gpu_in_use() {
  Gpu gpu;
  gpu.device = compute_device();
  cudaDeviceProp p;
  check(cudaGetDeviceProperties(&p, gpu.device), "cudaGetDeviceProperties of GPU {}", gpu.device);
  char bus[32] = "";
  check(cudaDeviceGetPCIBusId(bus, sizeof bus, gpu.device), "cudaDeviceGetPCIBusId of GPU {}", gpu.device);
  gpu.name = p.name;
  gpu.architecture = 10 * p.major + p.minor;
  gpu.multiprocessors = p.multiProcessorCount;
  gpu.threads = p.multiProcessorCount * p.maxThreadsPerMultiProcessor;
  gpu.bytes = p.totalGlobalMem;
  gpu.bus = bus;
  return gpu;
}

}  // namespace keelson::cuda
