#pragma once

#include <memory>

#include "engine/ops/context.hpp"

/// The functions about GPUs for the registry of backends. This header needs no header of CUDA.
namespace keelson::cuda {

/// A GPU among those that this process sees (CUDA_VISIBLE_DEVICES).
struct GpuChoice {
  int device = -1;      ///< -1: none
  std::string refused;  ///< why there is none: what was found, what is expected and what to try
};

/// Chooses GPU number `local_rank` modulo the number of GPUs, if this build can compute on it. Does not throw if there
/// is no GPU or no driver: a login node is no error.
GpuChoice choose_gpu(int local_rank);

/// The GPU that Kokkos was started on. Kokkos must outlive the device and the device's memory.
std::unique_ptr<Device> make_device();

}  // namespace keelson::cuda
