#pragma once

#include <memory>

#include "backends/cuda/handles.hpp"
#include "engine/ops/context.hpp"

namespace keelson::cuda {

/// A stream beside `compute`.
std::unique_ptr<Queue> make_queue(cudaStream_t compute);

}  // namespace keelson::cuda
