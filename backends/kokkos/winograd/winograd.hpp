#pragma once

#include <memory>
#include <string>

#include "engine/ops/conv.hpp"
#include "engine/ops/conv_max_pool.hpp"
#include "engine/ops/factory.hpp"

/// Convolutions by Winograd's minimal filtering algorithms, for CPUs (winograd_tile.hpp has the algorithms). A tile of
/// m results along each dim, with a kernel of r, takes (m + r - 1)^dims multiplications instead of (m r)^dims:
///
///     r  m   in 2 dims   in 3 dims   transformed filters, in 3 dims
///     3  2   1/2.25      1/3.4       2.4 times as large
///     3  4   1/4         1/8         8
///     4  3   1/4         1/8         3.4
///     5  2   1/2.8       1/4.6       1.7
///
/// The additions of the transforms take back a part of this gain.
///
/// Rounding: compared with float64, the mean error of m = 2, r = 3 is about that of a direct convolution. The error of
/// the others is 2 to 3 times as large, in the gradient of the weights up to 5 times. Results do not depend on the
/// number of threads.
namespace keelson::kokkos {

/// The values of m that exist, the one with the fewest multiplications first.
inline constexpr int winograd_sizes[] = {4, 3, 2};

/// One verb of the convolution; the others fail. f32; in the forward pass src and weights may be bf16 (products and
/// sums are f32). channels-last, a kernel of r along two or three dims (see above), stride and dilation 1, one group;
/// the numbers of channels must suit the vector registers. Weights may have any strides.
ops::Expected<ops::Conv> make_winograd_conv(const ops::ConvDesc& d, ops::Verb verb, int m);

/// A convolution and max pooling with windows of 2 along each dim, without gap or overlap, in one call: the results of
/// a tile are pooled in registers.
ops::Expected<ops::ConvMaxPoolForward> make_winograd_conv_max_pool(const ops::ConvMaxPoolForwardDesc& d, int m);

/// One verb of the gradient of a convolution with max pooling; the other fails. Tiles are computed from the gradient of
/// the pooled result and the argmax indices; the gradient of the convolution's result is never in memory. f32,
/// channels-last, windows of 4 to 256 elements without gap or overlap, and the conditions of make_winograd_conv().
ops::Expected<ops::ConvMaxPoolBackward> make_winograd_max_pool_backward(const ops::ConvMaxPoolDesc& d, ops::Verb verb,
                                                                        int m);

/// A rule of thumb for when nothing is measured: m for this verb, or 0 if a direct convolution is probably faster.
int winograd_guess(const ops::ConvDesc& d, ops::Verb verb);

}  // namespace keelson::kokkos
