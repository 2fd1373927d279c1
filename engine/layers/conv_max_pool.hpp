#pragma once

#include "engine/layers/pool.hpp"
#include "engine/layers/weighted.hpp"

namespace keelson {

/// Plans a convolution, its activation and the following max pooling as one node. If the convolution's result is large,
/// the forward pass works in depth tiles (DepthTiledConv). In the backward pass, the activation's derivative is applied
/// to the pooled gradient, which is smaller; if a backend has ops::ConvMaxPoolBackward, the gradient of the
/// convolution's result is never made. In both cases the convolution's result need not be kept. `conv` describes the
/// convolution for the node's source, with a bias if `of` has one.
BackwardFn plan_conv_max_pool(ForwardBuilder& p, const PoolOptions& pooling, const ops::ConvDesc& conv,
                              const WeightedParameters& of);

}  // namespace keelson
