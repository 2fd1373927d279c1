#pragma once

#include "engine/ops/context.hpp"
#include "engine/ops/conv_max_pool.hpp"

namespace keelson::composed {

/// The size of a tile that stays in the threads' inner caches, and that gives each thread enough work.
std::size_t tile_bytes(int threads);

/// A convolution and max pooling, tile by tile along the first spatial dim. Each tile of the convolution's result is
/// pooled while the tile is in the caches of a CPU, and memory holds only one tile of the result. The parts are the
/// context's primitives for the shapes of the tiles. Unsupported if tiles do not pay (the whole result fits the caches)
/// or are not possible: a stride or dilation along the first dim, overlapping windows.
ops::Expected<ops::ConvMaxPoolForward> make_depth_tiled_conv(const ops::ConvMaxPoolForwardDesc& desc, Context& context);

}  // namespace keelson::composed
