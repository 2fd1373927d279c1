#pragma once

#include <string>
#include <vector>

#include "engine/ops/context.hpp"
#include "engine/ops/loss_scale.hpp"
#include "engine/ops/step_params.hpp"
#include "tests/oracle/array.hpp"

/// Between the oracle's Arrays and a context's Tensors.
namespace keelson::testing {

using oracle::Array;

/// A tensor of f32, bf16 or f16 in `layout` that holds `a`, rounded.
Tensor put(Context& context, const Array& a, const Layout& layout, DType type = DType::f32);
/// One whose logical elements hold a value that no result may keep; padding is zero.
Tensor destination(Context& context, const Shape& shape, const Layout& layout, DType type = DType::f32);
Array get(Context& context, const Tensor& t);  ///< f32, bf16 or f16, any layout

/// The nearest values that `type` (f32, bf16, f16) holds.
Array rounded(Array a, DType type);

Tensor put_classes(Context& context, const Array& classes);  ///< plain s32
Tensor put_f64(Context& context, const Array& a);            ///< plain f64
Array get_f64(Context& context, const Tensor& t);
Tensor put_step_params(Context& context, const ops::StepParams& step_params);
Tensor put_loss_scale(Context& context, const ops::LossScale& scale);

/// `bytes` of u8 filled with NaN patterns, since scratch is handed over undefined; an empty tensor for 0 bytes.
Tensor scratch(Context& context, std::size_t bytes);

/// The allocation as it lies in memory.
std::vector<unsigned char> raw_bytes(Context& context, const Tensor& t);

/// How many elements of an f32 allocation that belong to no logical element are not zero.
std::int64_t dirty_padding(Context& context, const Tensor& t);

}  // namespace keelson::testing
