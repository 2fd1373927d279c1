#pragma once

#include <memory>

#include "backends/cuda/handles.hpp"
#include "engine/ops/context.hpp"

namespace keelson::cuda {

/// A stream beside those of the execution instances. `device` lets watchdogs look while the host waits for it.
std::unique_ptr<Queue> make_queue(Device& device, Stream stream);

}  // namespace keelson::cuda
