#pragma once

#include <string_view>

#include "engine/tensor/shape.hpp"

/// The shape rule that convolution and pooling share.
namespace keelson::ops {

/// A window sliding over the spatial dims of (N, C, spatial...); one entry per spatial dim.
struct Window {
  const Shape &kernel, &stride, &dilation, &pad_begin, &pad_end;
};

/// Number of positions in each spatial dim, floor((in + pads - reach) / stride) + 1 with reach = dilation (kernel - 1)
/// + 1. Throws InputError naming `op` and the dim where a parameter has the wrong number of entries or range, or the
/// window does not fit.
Shape window_positions(std::string_view op, const Shape& src, const Window& w);

}  // namespace keelson::ops
