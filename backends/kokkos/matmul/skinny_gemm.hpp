#pragma once

#include "engine/ops/device.hpp"
#include "engine/ops/factory.hpp"
#include "engine/ops/matmul.hpp"

namespace keelson::kokkos {

/// Products of few rows with many weights that are used more than once, as a recurrent layer's: f32 on CPUs. The
/// weights are packed and stream through the caches while all rows are in registers, one part of them after the other;
/// what comes next is prefetched. Sums do not depend on the number of threads.
ops::Expected<ops::MatMul> make_skinny_gemm(const ops::MatMulDesc& desc);

}  // namespace keelson::kokkos
