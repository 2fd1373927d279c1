#pragma once

#include <string>
#include <vector>

#include "engine/ops/context.hpp"
#include "engine/ops/loss_scale.hpp"
#include "engine/ops/step_params.hpp"
#include "tests/oracle/array.hpp"

/// Conversion between the oracle's Arrays and a context's Tensors.
namespace keelson::testing {

using oracle::Array;

// The memory of these tensors lies between two guards. The test fails if a primitive wrote to a guard.

/// A tensor of f32, bf16 or f16 in `layout` with the rounded values of `a`.
Tensor put(Context& context, const Array& a, const Layout& layout, DType type = DType::f32);
/// A tensor whose logical elements have a value that no result may keep; padding is zero.
Tensor destination(Context& context, const Shape& shape, const Layout& layout, DType type = DType::f32);
Array get(Context& context, const Tensor& t);  ///< f32, bf16 or f16, any layout

/// The values rounded to `type` (f32, bf16, f16).
Array rounded(Array a, DType type);

Tensor put_classes(Context& context, const Array& classes);  ///< plain s32
Array get_s32(Context& context, const Tensor& t);            ///< plain s32
Tensor put_f64(Context& context, const Array& a);            ///< plain f64
Array get_f64(Context& context, const Tensor& t);
Tensor put_step_params(Context& context, const ops::StepParams& step_params);
Tensor put_loss_scale(Context& context, const ops::LossScale& scale);

/// `bytes` of u8 filled with NaN patterns, since the contents of scratch memory are undefined; an empty tensor for 0
/// bytes.
Tensor scratch(Context& context, std::size_t bytes);

/// The bytes of the allocation.
std::vector<unsigned char> raw_bytes(Context& context, const Tensor& t);

/// The number of non-zero elements in the padding of an f32 allocation.
std::int64_t dirty_padding(Context& context, const Tensor& t);

}  // namespace keelson::testing
