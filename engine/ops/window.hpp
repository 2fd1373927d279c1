#pragma once

#include <string_view>

#include "engine/tensor/shape.hpp"

/// The shape rule that convolution and pooling share.
namespace keelson::ops {

/// A window sliding over the spatial dims of (N, C, spatial...); one entry per spatial dim.
struct Window {
  const Shape& kernel;     ///< extents of the window
  const Shape& stride;     ///< step from one position to the next
  const Shape& dilation;   ///< distance of neighbours within the window; 1: dense
  const Shape& pad_begin;  ///< zeros before the first element
  const Shape& pad_end;    ///< zeros after the last element
};

/// Throws InputError, naming `op`, unless src has 1 to 3 spatial dims and each parameter one entry in range for each.
void check_window(std::string_view op, const Shape& src, const Window& w);

/// Number of positions in each spatial dim: floor((in + pads - reach) / stride) + 1 with
/// `reach = 1 + dilation * (kernel - 1)`. Throws InputError, naming `op` and the dim, if a parameter has the wrong
/// number of entries or is out of range, or if the window does not fit.
Shape window_positions(std::string_view op, const Shape& src, const Window& w);

}  // namespace keelson::ops
