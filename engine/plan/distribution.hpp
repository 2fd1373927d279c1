#pragma once

#include <string>

#include "engine/base/process_grid.hpp"

namespace keelson {

/// How the ranks of a process grid hold a value, along each axis of the grid. A distribution stands beside the layout:
/// the layout says how one rank's memory is arranged, the distribution says how the value is made of the memory of all
/// ranks. Along an axis, a value is
///
/// - replicated: every rank along the axis holds the whole value, with the same bits if the value comes out of a sum
///   over ranks, else up to rounding.
/// - partial: every rank along the axis holds one term. The value is the sum of all terms. A sum over the samples of
/// the
///   batch is partial over the axes data, space and channel (Distribution::batch): a gradient, a loss, the sums of a
///   batch normalisation. If the ranks along data are cut into groups of neighbours (ProcessGrid::along), each group
///   has a value of its own, the sum of its terms.
///
/// Calls read replicated values. If a call reads a partial one, the plan inserts an allreduce before it
/// (insert_collectives). Calls of linear primitives (Primitive::is_linear) may make partial values from partial ones: a
/// term from terms, also if the two values have groups of other sizes.
///
/// The samples of the batch need no distribution: a graph describes one sample, and each rank along the axis data has
/// samples of its own. Ranks along the axis space have the same samples, and parts of their values, for which each rank
/// has a plan of its own (spatial_parts()): within such a plan these values are those of one rank. If all ranks
/// compute the same from whole values, each sample counts once in sums: its weight is 0 on the ranks beyond the first
/// one along space (NodeBuilder::sample_weight). The terms of these ranks are zeros. The same holds along the axis
/// channel, whose ranks have the same samples, and parts of the layers' channels (channel_parts()), which deep layers
/// have along space, too (channel_layers()).
struct Distribution {
  using Axis = ProcessGrid::Axis;  ///< an axis of the process grid
  using Axes = ProcessGrid::Axes;  ///< a set of axes
  /// The axes whose ranks train one network on one batch, and hold terms of sums over its samples. Ranks along channel
  /// and space that compute the same have terms of zero, but for the first one.
  static constexpr Axes batch{Axis::data, Axis::space, Axis::channel};
  /// The axes whose ranks hold terms of the loss: of the stages, the last one has the terms, and the others zero.
  static constexpr Axes all_terms{Axis::data, Axis::space, Axis::channel, Axis::stage};
  /// The same for sums that belong to channels of this rank alone, where the ranks along `axis` share channels.
  static constexpr Axes of_own_channels(Axis axis) { return batch.without(axis); }

  Axes partial_axes{};  ///< the axes whose ranks hold terms of a sum; along the others the value is replicated
  int group = 0;        ///< of partial over data: ranks of a group of neighbours along data; 0: all ranks

  /// Every rank holds the whole value.
  static Distribution replicated() { return {}; }
  /// Every rank along these axes holds one term of a sum.
  static Distribution partial(Axes axes = batch) { return {axes}; }
  /// The same within groups of so many neighbours along data; 0: one group of all ranks.
  static Distribution partial_in_groups(int group, Axes axes = batch) { return {axes, group}; }
  bool is_partial() const { return !partial_axes.empty(); }  ///< whether ranks hold terms of a sum
  bool operator==(const Distribution&) const = default;
};

/// "replicated", "partial over data and space", "partial over data in groups of 2".
std::string to_string(const Distribution& d);

}  // namespace keelson
