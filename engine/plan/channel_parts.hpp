#pragma once

#include "engine/plan/spatial_parts.hpp"

namespace keelson {

/// The nodes of this rank along the axes space and channel. With several ranks along channel, layers with enough
/// channels in their results (ChannelRule) compute a part of them on each rank, with a part of their parameters. Layers
/// that compute each channel from the same channel go on with the parts. In training, losses that are sums over
/// channels are sums of the ranks' terms (Layer::channel_term). Where another layer, or the caller, reads the value,
/// all ranks exchange channels (row_exchange_layer()). Backward, each rank has a term of the gradient of the whole
/// value: the owner of a channel adds the terms of all ranks, and the sums over samples of what all ranks compute alike
/// include the ranks along channel (Distribution::batch).
///
/// With several ranks along space, the nodes are those of spatial_parts(), of which the ranks share channel_layers() in
/// the same way.
///
/// Throws InputError for several ranks along both axes, and if no layer can be cut along channel.
SpatialParts channel_parts(const Graph& graph, const FusedNodes& fused, const PlanOptions& options);

}  // namespace keelson
