#pragma once

#include "engine/ops/context.hpp"
#include "engine/ops/conv_max_pool.hpp"

namespace keelson::composed {

/// Bytes of a tile that stays in the threads' nearer caches, and gives each of them enough to do.
std::size_t tile_bytes(int threads);

/// A convolution and the max pooling behind it, tile by tile along the first spatial dim: each tile of the
/// convolution's result is pooled while it still lies in the caches of a CPU, and only one tile of it is ever in
/// memory. Made of the context's primitives for the shapes of the tiles. Unsupported where it does not pay or cannot be
/// done: a result that fits the caches anyway, a stride or dilation along the first dim, overlapping windows.
ops::Expected<ops::ConvMaxPoolForward> make_depth_tiled_conv(const ops::ConvMaxPoolForwardDesc& desc, Context& context);

}  // namespace keelson::composed
