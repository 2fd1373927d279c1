#pragma once

#include <memory>
#include <string>

#include "engine/ops/context.hpp"

namespace keelson::backends {

/// oneDNN (3.1 or later) on the CPU: convolution, dense, pooling, eltwise, reorder, sum, concat and softmax; the rest
/// declines. An op is also declined where oneDNN has only its slow reference implementation and another backend could
/// read the tensors. Primitives use the OpenMP threads of the thread that makes and runs them; they may outlive the
/// factory, not `device`. Throws Error where oneDNN cannot start.
std::unique_ptr<ops::OpFactory> make_onednn_factory(Device& device);

/// "3.7.1", of the library that is loaded.
std::string onednn_version();

/// f32 from AVX2 on, bf16 from AVX-512 on (where the processor has no instructions for bf16, oneDNN emulates them), f16
/// from AVX512-FP16 on. ONEDNN_MAX_CPU_ISA lowers what oneDNN uses.
bool onednn_computes_in(DType type);

}  // namespace keelson::backends
