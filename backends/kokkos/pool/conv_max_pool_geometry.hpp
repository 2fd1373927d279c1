#pragma once

#include "backends/kokkos/common/tile.hpp"
#include "backends/kokkos/conv/conv_geometry.hpp"

/// Gradients of a convolution behind max pooling, from the pooled gradient and the argmax indices of the windows.
/// Stride and dilation 1, one group, windows side by side; the pooled tensors have channels last. A position below is
/// one of the convolution's result: window * extent of a window + argmax index.
namespace keelson::kokkos {

using ArgmaxIndex = std::uint8_t;  ///< place in the window, row by row, as max pooling leaves it in its workspace

struct PooledGeometry {
  Volume src;
  Index filters, n;
  Triple kernel, pad, window, windows;  ///< windows: extents of the pooled tensor

  Index window_count() const { return n * windows[0] * windows[1] * windows[2]; }
  KOKKOS_FUNCTION Index places() const { return window[0] * window[1] * window[2]; }
  KOKKOS_FUNCTION Triple place(Index p) const {
    return {p / (window[1] * window[2]), p / window[2] % window[1], p % window[2]};
  }
};

}  // namespace keelson::kokkos
