#pragma once

#include <string>
#include <vector>

#include "engine/ops/context.hpp"
#include "engine/ops/step_state.hpp"
#include "tests/support/array.hpp"

/// Between the oracle's Arrays and a context's Tensors.
namespace keelson::testing {

using oracle::Array;

/// An f32 tensor in `layout` that holds `a`.
Tensor put(Context& context, const Array& a, const Layout& layout);
/// An f32 tensor in `layout` whose logical elements hold a value that no result may keep; padding is zero.
Tensor destination(Context& context, const Shape& shape, const Layout& layout);
Array get(Context& context, const Tensor& t);  ///< f32, any layout

Tensor put_classes(Context& context, const Array& classes);  ///< plain s32
Tensor put_f64(Context& context, const Array& a);            ///< plain f64
Array get_f64(Context& context, const Tensor& t);
Tensor put_state(Context& context, const ops::StepState& state);

/// `bytes` of u8 filled with NaN patterns, since scratch is handed over undefined; an empty tensor for 0 bytes.
Tensor scratch(Context& context, std::size_t bytes);

/// The allocation as it lies in memory.
std::vector<unsigned char> raw_bytes(Context& context, const Tensor& t);

/// How many elements of an f32 allocation that belong to no logical element are not zero.
std::int64_t dirty_padding(Context& context, const Tensor& t);

}  // namespace keelson::testing
