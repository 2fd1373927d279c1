#pragma once

#include "backends/kokkos/common/tile.hpp"
#include "backends/kokkos/conv/conv_geometry.hpp"

/// Gradients of a convolution with max pooling, from the pooled gradient and the argmax indices of the windows. Stride
/// and dilation 1, one group, windows without gap or overlap; the pooled tensors are channels-last. Below, a position
/// is a position in the convolution's result: window * extent of a window + argmax index.
namespace keelson::kokkos {

using ArgmaxIndex = std::uint8_t;  ///< index in the window, row by row, as in the workspace of max pooling

struct PooledGeometry {
  Volume src;
  Index filters, n;
  Triple kernel, pad, window, windows;  ///< windows: extents of the pooled tensor

  Index window_count() const { return n * windows[0] * windows[1] * windows[2]; }
  KOKKOS_FUNCTION Index window_elements() const { return window[0] * window[1] * window[2]; }
  KOKKOS_FUNCTION Triple coordinates(Index index) const {
    return {index / (window[1] * window[2]), index / window[2] % window[1], index % window[2]};
  }
};

}  // namespace keelson::kokkos
