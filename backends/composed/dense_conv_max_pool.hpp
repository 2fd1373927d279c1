#pragma once

#include "engine/ops/context.hpp"
#include "engine/ops/conv_max_pool.hpp"

namespace keelson::composed {

/// One verb of the gradient of a convolution and max pooling, by dense convolutions in the description's `compute`
/// type. Works tile by tile along the first spatial dim: the pooled gradient is written to the elements that were the
/// maxima of their windows, then the gradient of the tile is computed while the tile is in the caches. `tile_bytes`:
/// the approximate size of a tile. For windows of 2 x 2 x 2 this takes 8 times the FLOPs of the gradient by argmax
/// indices. It pays on processors with matrix units (AMX). The other verb fails.
ops::Expected<ops::ConvMaxPoolBackward> make_dense_conv_max_pool(const ops::ConvMaxPoolDesc& desc, ops::Verb verb,
                                                                 Context& context, std::size_t tile_bytes);

}  // namespace keelson::composed
