#pragma once

#include <memory>

#include "backends/cuda/staging.hpp"
#include "engine/ops/device.hpp"

/// Execution instances of the GPU: a stream each, on which Kokkos' kernels, cublasLt and cuDNN run. Needs no nvcc to be
/// included.
namespace keelson::cuda {

/// Makes the main instance, where there is none yet.
void ensure_main_instance();
std::shared_ptr<ExecutionInstance> make_instance();

// Of the calling host thread's current instance.

ExecutionInstance& current_instance();
cudaStream_t current_stream();
Staging& current_staging();

}  // namespace keelson::cuda
