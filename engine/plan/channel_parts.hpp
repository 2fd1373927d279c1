#pragma once

#include "engine/plan/spatial_parts.hpp"

namespace keelson {

/// The nodes of this rank along the axes space and channel: those of spatial_parts(), if there is one rank along
/// channel. Else layers with enough channels in their results (Layer::channel_part: two for each rank at least) compute
/// a part of them on each rank, with a part of their parameters. Layers that compute each channel from the same channel
/// go on with the parts. In training, losses that are sums over channels are sums of the ranks' terms
/// (Layer::channel_term). Where another layer, or the caller, reads the value, all ranks exchange channels
/// (row_exchange_layer()). Backward, each rank has a term of the gradient of the whole value: the owner of a channel
/// adds the terms of all ranks, and the sums over samples of what all ranks compute alike include the ranks along
/// channel (Distribution::batch). Layers that share parameters with others stay whole.
///
/// Throws InputError for samples in parts and channels in parts together, and if no layer can be cut.
SpatialParts channel_parts(const Graph& graph, const FusedNodes& fused, const PlanOptions& options);

}  // namespace keelson
