#pragma once

#include "engine/ops/context.hpp"
#include "engine/ops/conv_max_pool.hpp"

namespace keelson::composed {

/// One verb of the gradient of a convolution behind max pooling, made of dense convolutions in the description's
/// `compute` type: tile by tile along the first spatial dim, the pooled gradient is written to where the largest
/// elements of its windows were, and the tile's gradient is computed while it lies in the caches. `tile_bytes`: of such
/// a tile, about. The gradient has 8 times the FLOPs of that by argmax indices for windows of 2 x 2 x 2, and pays where
/// a processor has units for products of matrices (AMX). The other verb fails.
ops::Expected<ops::ConvMaxPoolBackward> make_dense_conv_max_pool(const ops::ConvMaxPoolDesc& desc, ops::Verb verb,
                                                                 Context& context, std::size_t tile_bytes);

}  // namespace keelson::composed
