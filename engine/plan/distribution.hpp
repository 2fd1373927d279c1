#pragma once

#include <algorithm>
#include <string>

#include "engine/base/process_grid.hpp"

namespace keelson {

/// How the ranks along one axis of the process grid hold a value. A distribution stands beside the layout: the layout
/// says how one rank's memory is arranged, the distribution says how the value is made of the memory of all ranks.
///
/// - replicated: every rank holds the whole value, with the same bits.
/// - partial: every rank holds one term. The value is the sum of all terms. A sum over the samples of the batch is
///   partial over the axis data: a gradient, a loss, the sums of a batch normalisation. Where the ranks are cut into
///   groups of neighbours (ProcessGrid::along), each group has a value of its own, the sum of its terms.
/// - sharded: every rank holds one part along `dim`, in rank order. Not built yet: NodeBuilder::new_buffer refuses it.
///
/// Calls read replicated values. Where a call reads a partial one, the plan inserts an allreduce before it
/// (insert_collectives). Calls of linear primitives (Primitive::is_linear) may make partial values from partial ones: a
/// term from terms, also where the two values have groups of other sizes.
///
/// The samples of the batch need no distribution: a graph describes one sample, and each rank along the axis data has
/// samples of its own.
struct Distribution {
  /// How the value is made of the memory of the ranks: see above.
  enum class Kind : std::uint8_t { replicated, partial, sharded };
  /// An axis of the process grid.
  using Axis = ProcessGrid::Axis;

  Kind kind = Kind::replicated;  ///< replicated, partial or sharded
  Axis axis = Axis::data;        ///< of partial and sharded: the ranks that hold terms or parts
  int dim = -1;                  ///< of sharded: the dimension that is cut into parts; else -1
  int group = 0;                 ///< of partial: ranks of a group of neighbours; 0: all ranks along the axis

  /// Every rank holds the whole value.
  static Distribution replicated() { return {}; }
  /// Every rank along the axis holds one term of a sum.
  static Distribution partial(Axis axis = Axis::data) { return {Kind::partial, axis, -1}; }
  /// The same within groups of so many neighbours; 0: one group of all ranks.
  static Distribution partial_in_groups(int group, Axis axis = Axis::data) { return {Kind::partial, axis, -1, group}; }
  /// Every rank along the axis holds one part along dimension `dim`.
  static Distribution sharded(Axis axis, int dim) { return {Kind::sharded, axis, dim}; }
  bool is_partial() const { return kind == Kind::partial; }  ///< whether ranks hold terms of a sum
  /// Of partial: terms of the longest sum, with `ranks` along the axis.
  int terms(int ranks) const { return group == 0 ? ranks : std::min(group, ranks); }
  bool operator==(const Distribution&) const = default;
};

/// "replicated", "partial over data", "partial over data in groups of 2", "sharded along dim 2 over space".
std::string to_string(const Distribution& d);

}  // namespace keelson
