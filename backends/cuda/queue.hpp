#pragma once

#include <memory>

#include "backends/cuda/handles.hpp"
#include "engine/ops/context.hpp"

namespace keelson::cuda {

/// A stream beside those of the execution instances. Watchdogs of `device` can report while the host waits for the
/// stream.
std::unique_ptr<Queue> make_queue(Device& device, Stream stream);

}  // namespace keelson::cuda
