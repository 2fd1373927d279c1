#pragma once

#include <memory>

#include "engine/ops/context.hpp"

namespace keelson::backends {

/// oneDNN (3.1 or later) on the CPU: convolution, dense, pooling, eltwise, reorder, sum, concat and softmax; the rest
/// declines. An op is also declined where oneDNN has only its slow reference implementation and another backend could
/// read the tensors. Primitives use the OpenMP threads of the thread that makes and runs them; they may outlive the
/// factory, not `device`. Throws Error where oneDNN cannot start.
std::unique_ptr<ops::OpFactory> make_onednn_factory(Device& device);

}  // namespace keelson::backends
