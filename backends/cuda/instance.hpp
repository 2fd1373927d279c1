#pragma once

#include <memory>

#include "backends/cuda/staging.hpp"
#include "engine/ops/device.hpp"

/// Execution instances of the GPU. Each has a stream, on which Kokkos' kernels, cublasLt and cuDNN run. Including this
/// header does not need nvcc.
namespace keelson::cuda {

/// Makes the main instance, unless there is one.
void ensure_main_instance();
std::shared_ptr<ExecutionInstance> make_instance();

// Of the calling host thread's current instance.

ExecutionInstance& current_instance();
cudaStream_t current_stream();
Staging& current_staging();

}  // namespace keelson::cuda
