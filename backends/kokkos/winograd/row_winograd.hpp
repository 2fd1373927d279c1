#pragma once

#include "engine/ops/conv.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

/// One verb of a convolution of images, for CPUs, by Winograd's algorithms along rows alone (winograd_tile.hpp); the
/// other verbs fail. m neighbouring results of a row take 6 multiplications in place of m r for each row of the kernel:
/// half as many for r = 3 taps along a row (m = 4) and r = 4 (m = 3), three fifths for r = 5 (m = 2).
///
/// For kernels that are not square, and for numbers of channels that do not suit the vector registers; where Winograd's
/// algorithms in two dims apply, they take fewer multiplications, and this one declines. f32, channels-last src and
/// dst, two spatial dims, stride and dilation 1, one group. Weights may have any strides. Results do not depend on the
/// number of threads. Rounding: the mean error is at most about 3 times that of a direct convolution.
ops::Expected<ops::Conv> make_row_winograd_conv(const ops::ConvDesc& d, ops::Verb verb);

}  // namespace keelson::kokkos
