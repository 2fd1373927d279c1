#pragma once

#include "engine/ops/dense.hpp"
#include "engine/ops/factory.hpp"
#include "engine/ops/matmul.hpp"

/// The candidates that multiply by packed_gemm.hpp: f32 on CPUs. They decline what is too small for it.
namespace keelson::kokkos {

ops::Expected<ops::Dense> make_packed_dense(const ops::DenseDesc& desc, ops::Verb verb);
ops::Expected<ops::MatMul> make_packed_matmul(const ops::MatMulDesc& desc, ops::Verb verb);

}  // namespace keelson::kokkos
