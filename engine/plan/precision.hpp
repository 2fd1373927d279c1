#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/tensor/dtype.hpp"

namespace keelson {

/// The type in which convolutions, dense and recurrent layers multiply, if a backend has kernels for the type. Sums,
/// parameters, their gradients, optimizer state and the loss are always f32 or f64.
enum class Precision : std::uint8_t {
  fp32,  ///< f32 without rounding
  tf32,  ///< f32 values, rounded to 10 bits of mantissa as they are multiplied (NVIDIA GPUs from Ampere on)
  bf16,  ///< bfloat16: 8 bits of exponent as in f32, 7 bits of mantissa
  fp16,  ///< IEEE half, with dynamic scaling of gradients (ops::LossScale)
};

/// The dtype of the operands of these multiplications: f32 for fp32 and tf32.
constexpr DType compute_type(Precision p) {
  return p == Precision::bf16 ? DType::bf16 : p == Precision::fp16 ? DType::f16 : DType::f32;
}

std::string_view to_string(Precision p);  ///< "fp32", ...
/// The words that --precision takes: the names of all precisions, "default" and "auto" (choose_precision()).
std::vector<std::string> precisions();

}  // namespace keelson
