#pragma once

#include "backends/detail/depth_tiled_conv.hpp"
#include "engine/ops/conv_max_pool.hpp"
#include "engine/ops/factory.hpp"

namespace keelson::kokkos {

/// One verb of the gradient of a convolution behind max pooling, by the makers' dense convolutions, in the
/// description's `compute` type: tile by tile along the first spatial dim, the pooled gradient is scattered to where
/// its windows' largest elements were, and the tile's gradient is computed while it lies in the caches. It has 8 times
/// the FLOPs of the gradient by argmax indices for windows of 2 x 2 x 2, and pays where units for products of matrices
/// (AMX) are faster than that. The other verb fails.
ops::Expected<ops::ConvMaxPoolBackward> make_unpooled_conv(const ops::ConvMaxPoolDesc& desc, ops::Verb verb,
                                                           const backends::TileMakers& makers);

}  // namespace keelson::kokkos
