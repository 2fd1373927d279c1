#pragma once

#include "engine/ops/device.hpp"
#include "engine/ops/factory.hpp"
#include "engine/ops/matmul.hpp"

namespace keelson::kokkos {

/// Products of few rows with many weights that are used more than once, for example in a recurrent layer: f32 on CPUs.
/// The weights are packed and read part by part while the sums of all rows are in registers; the next part is
/// prefetched. Sums do not depend on the number of threads.
ops::Expected<ops::MatMul> make_skinny_gemm(const ops::MatMulDesc& desc);

}  // namespace keelson::kokkos
