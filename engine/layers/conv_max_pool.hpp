#pragma once

#include "engine/layers/pool.hpp"
#include "engine/layers/weighted.hpp"

namespace keelson {

/// A convolution, its activation and the max pooling behind it as one node. Forward goes by depth tiles
/// (DepthTiledConv) where the convolution's result is large. Backward, the activation's derivative is applied to the
/// pooled gradient, which is smaller, and where a backend has ops::ConvMaxPoolBackward the gradient of the
/// convolution's result is never made. Either way that result need not be kept. `conv` describes the convolution for
/// the node's source, with a bias if `of` makes one.
BackwardFn plan_conv_max_pool(ForwardBuilder& p, const PoolOptions& pooling, const ops::ConvDesc& conv,
                              const WeightedParameters& of);

}  // namespace keelson
