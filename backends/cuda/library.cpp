#include "backends/cuda/library.hpp"

#include <algorithm>

#include "backends/cuda/capturing_device.hpp"

namespace keelson::cuda {

namespace {

/// Raise this number if choices that were stored earlier must not be used. Version 1 could store algorithms that were
/// timed but had not run.
constexpr int tuning_version = 3;

}  // namespace

Library::Library(Device& d, const std::string& libraries)
    : device(d),
      gpu(gpu_in_use()),
      lt(make_lt_handle()),
      autotuner(fmt::format("{}-cublasLt-{}{}-v{}", gpu.name, cublasLtGetVersion(), libraries, tuning_version),
                std::make_unique<CapturedGraphTimer>(make_capturing_device())) {}

std::size_t workspace_limit(const Library& library) {
  constexpr std::size_t most = std::size_t{1} << 30;
  return std::min(most, library.gpu.bytes / 64) / 256 * 256;
}

GpuMemory trial_memory(std::size_t bytes) {
  void* p = nullptr;
  if (const auto status = cudaMalloc(&p, std::max<std::size_t>(bytes, 1)); status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return {};
  } else {
    check(status, "cudaMalloc of {} bytes to try algorithms on", bytes);
  }
  GpuMemory memory(p);
  // 0x3c3c is 1.06 in f16 and 0.011 in bf16, 0x3c3c3c3c is 0.011 in f32.
  check(cudaMemset(p, 0x3c, std::max<std::size_t>(bytes, 1)), "cudaMemset");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return memory;
}

}  // namespace keelson::cuda
