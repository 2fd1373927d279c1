#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/tensor/dtype.hpp"

namespace keelson {

/// In what convolutions, dense and recurrent layers multiply, where a backend has kernels for it. Sums, parameters,
/// their gradients, optimizer state and the loss are f32 (or f64) always.
enum class Precision : std::uint8_t {
  fp32,
  tf32,  ///< f32 values, rounded to 10 bits of mantissa as they are multiplied (NVIDIA GPUs from Ampere on)
  bf16,
  fp16,  ///< with dynamic scaling of gradients (ops::LossScale)
};

/// The dtype of what is multiplied: f32 for tf32, too.
constexpr DType compute_type(Precision p) {
  return p == Precision::bf16 ? DType::bf16 : p == Precision::fp16 ? DType::f16 : DType::f32;
}

std::string_view to_string(Precision p);  ///< "fp32", ...
/// The words of --precision: those of all precisions, "default" and "auto" (see choose_precision).
std::vector<std::string> precisions();

}  // namespace keelson
