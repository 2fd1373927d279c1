#pragma once

#include <functional>

#include "backends/cuda/handles.hpp"

namespace keelson::cuda {

/// Calls `work`, which queues work on `stream`, and keeps that as a graph instead of running it. Where `work` throws or
/// queues what cannot be recorded (a copy from pageable memory, an allocation, waiting), this throws with the reason,
/// and the stream is as before.
GraphExec record(cudaStream_t stream, const std::function<void()>& work);

}  // namespace keelson::cuda
