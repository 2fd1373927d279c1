#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "engine/base/process_grid.hpp"

namespace keelson {

/// How the ranks of a process grid hold a value: one state for each axis of the grid. A distribution stands beside the
/// layout: the layout says how one rank's memory is arranged, the distribution says how the value is made of the memory
/// of all ranks. The states along one axis:
///
/// - replicated: every rank along the axis holds the whole value, with the same bits where the value comes out of a sum
///   over ranks, else up to rounding.
/// - partial: every rank along the axis holds one term. The value is the sum of all terms. A sum over the samples of
/// the
///   batch is partial over the axes data and space (Distribution::batch): a gradient, a loss, the sums of a batch
///   normalisation. Where the ranks along data are cut into groups of neighbours (ProcessGrid::along), each group has a
///   value of its own, the sum of its terms.
/// - sharded: every rank along the axis holds one part along `dim`, in rank order. Not built yet:
///   NodeBuilder::new_buffer refuses it.
///
/// Calls read replicated values. Where a call reads a partial one, the plan inserts an allreduce before it
/// (insert_collectives). Calls of linear primitives (Primitive::is_linear) may make partial values from partial ones: a
/// term from terms, also where the two values have groups of other sizes.
///
/// The samples of the batch need no distribution: a graph describes one sample, and each rank along the axis data has
/// samples of its own. Ranks along the axis space have the same samples, and compute the same: all their values are
/// whole. So that each sample counts once in sums, its weight is 0 on the ranks beyond the first one along space
/// (NodeBuilder::sample_weight). The terms of these ranks are zeros.
struct Distribution {
  /// How the value is made of the memory of the ranks along one axis: see above.
  enum class Kind : std::uint8_t { replicated, partial, sharded };
  using Axis = ProcessGrid::Axis;  ///< an axis of the process grid
  using Axes = ProcessGrid::Axes;  ///< a set of axes
  /// The axes whose ranks share the batch, and hold terms of sums over its samples.
  static constexpr Axes batch{Axis::data, Axis::space};

  /// How the ranks along one axis hold the value.
  struct State {
    Kind kind = Kind::replicated;  ///< replicated, partial or sharded
    int dim = -1;                  ///< of sharded: the dimension that is cut into parts; else -1
    bool operator==(const State&) const = default;
  };
  std::array<State, ProcessGrid::axes.size()> states{};  ///< by axis
  int group = 0;  ///< of partial over data: ranks of a group of neighbours along data; 0: all ranks

  /// The state along one axis.
  State& along(Axis axis) { return states[static_cast<std::size_t>(axis)]; }
  const State& along(Axis axis) const { return states[static_cast<std::size_t>(axis)]; }  ///< the same, to read
  /// Every rank holds the whole value.
  static Distribution replicated() { return {}; }
  /// Every rank along these axes holds one term of a sum.
  static Distribution partial(Axes axes = batch) { return partial_in_groups(0, axes); }
  /// The same within groups of so many neighbours along data; 0: one group of all ranks.
  static Distribution partial_in_groups(int group, Axes axes = batch);
  /// Every rank along the axis holds one part along dimension `dim`.
  static Distribution sharded(Axis axis, int dim);
  Axes axes_of(Kind kind) const;                                       ///< the axes with a state of this kind
  Axes partial_axes() const { return axes_of(Kind::partial); }         ///< the axes whose ranks hold terms of a sum
  bool is_partial() const { return !partial_axes().empty(); }          ///< whether ranks hold terms of a sum
  bool is_sharded() const { return !axes_of(Kind::sharded).empty(); }  ///< whether ranks hold parts
  bool operator==(const Distribution&) const = default;
};

/// "replicated", "partial over data and space", "partial over data in groups of 2", "sharded along dim 2 over space";
/// where axes have different states: "partial over data, sharded along dim 2 over space".
std::string to_string(const Distribution& d);

}  // namespace keelson
