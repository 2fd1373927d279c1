#pragma once

#include <string>
#include <vector>

#include "engine/plan/spatial_parts.hpp"

namespace keelson {

/// The nodes of this rank's stage. On a grid with one rank along the axis stage, and without a grid, those of
/// channel_parts(). Else the nodes after fusion, in their order, are cut into as many stages as the axis has ranks, and
/// this function keeps those of this rank. Values that later stages read go from each stage to the next one
/// (send_layer(), receive_layer()), and their gradients come back. Graph inputs and states are on every stage, outputs
/// and the loss on the last one. Parameters of other stages have no memory here (Parameter::part).
///
/// A stage begins with the node of the graph that PlanOptions::stage_starts names. Nodes that are fused belong to the
/// stage of the first of them, so plans for training and for inference keep a parameter on the same stage. Without
/// these names, stages have about the same work (estimated_stage_starts()).
///
/// Throws InputError for other axes with several ranks in a replica, for more stages than nodes that compute, for names
/// that are no nodes in this order, for layers that mix samples in training, and for parameters that nodes of two
/// stages share.
SpatialParts stage_parts(const Graph& graph, const FusedNodes& fused, const PlanOptions& options);

/// The ends of `stages` groups of neighbours, none empty, whose largest sum of `seconds` is smallest: the index behind
/// the last element of each. There are at least as many elements as groups. O(stages n^2).
std::vector<std::size_t> shortest_longest(const std::vector<double>& seconds, std::size_t stages);

/// The names of the graph's nodes with which the second stage and those behind it begin, if the nodes after fusion take
/// these seconds, by name; nodes that are not listed take none. Throws InputError for more stages than nodes that
/// compute.
std::vector<std::string> stage_starts(const Graph& graph, const FusedNodes& fused,
                                      const std::map<std::string, double>& seconds, int stages);

/// stage_starts() of estimates that need no plan, and are the same for training and inference: the multiply-adds of
/// each node for one sample, from the shapes of its parameters and results, and some for each element that it makes.
std::vector<std::string> estimated_stage_starts(const Graph& graph, int stages);

}  // namespace keelson
