#pragma once

#include <memory>

#include "engine/ops/context.hpp"

/// What the registry of backends knows of GPUs. Needs no header of CUDA.
namespace keelson::cuda {

/// Among the GPUs that this process sees (CUDA_VISIBLE_DEVICES).
struct GpuChoice {
  int device = -1;      ///< -1: none
  std::string refused;  ///< why there is none: what was found, what is needed and what to try
};

/// GPU number `local_rank` modulo their number, if this build can compute on it. Throws nothing where there is no GPU
/// and no driver: a login node is no error.
GpuChoice choose_gpu(int local_rank);

/// The GPU that Kokkos was started on, and its memory. Kokkos outlives the device and its memory.
std::unique_ptr<Device> make_device();

}  // namespace keelson::cuda
