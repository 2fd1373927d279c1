#pragma once

#include <memory>
#include <string>

#include "engine/ops/context.hpp"

namespace keelson::backends {

/// oneDNN (3.1 or later) on the CPU: convolution, dense, pooling, eltwise, reorder, sum, concat and softmax; declines
/// other ops. Also declines an op if oneDNN has only its slow reference implementation and another backend could read
/// the tensors. Primitives use the OpenMP threads of the thread that makes and runs them. They may outlive the factory,
/// but not `device`. Throws Error if oneDNN cannot start.
std::unique_ptr<ops::OpFactory> make_onednn_factory(Device& device);

/// The version of the library that is loaded: "3.7.1".
std::string onednn_version();

/// f32 from AVX2 on, bf16 from AVX-512 on (oneDNN emulates bf16 if the processor has no instructions for it), f16 from
/// AVX512-FP16 on. ONEDNN_MAX_CPU_ISA limits the instructions that oneDNN uses.
bool onednn_computes_in(DType type);

}  // namespace keelson::backends
