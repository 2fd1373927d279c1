#pragma once

#include <memory>

#include "backends/cuda/handles.hpp"
#include "engine/ops/context.hpp"

namespace keelson::cuda {

/// A stream beside those of the execution instances.
std::unique_ptr<Queue> make_queue();

}  // namespace keelson::cuda
