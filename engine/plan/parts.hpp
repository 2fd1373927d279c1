#pragma once

#include <vector>

#include "engine/tensor/rows.hpp"

namespace keelson {

/// How the ranks of a group hold the rows of a value along one dimension.
struct ValueParts {
  std::int64_t extent = 0;           ///< rows of the whole value
  std::vector<std::int64_t> bounds;  ///< rank r owns the rows bounds[r] to bounds[r + 1] - 1; empty: each owns all rows
  /// Per rank: the rows in its memory. They include the rank's own rows if another rank reads these, and may include
  /// rows of other ranks that the rank computes, too. Rows beyond the edges are zeros.
  std::vector<Rows> held;

  bool is_cut() const { return !bounds.empty(); }  ///< whether ranks own parts
  /// The rows that rank r owns.
  Rows owned(std::size_t r) const { return is_cut() ? Rows{bounds[r], bounds[r + 1]} : Rows{0, extent}; }
  /// A value of this extent that each of `ranks` ranks holds as a whole.
  static ValueParts whole(std::int64_t extent, std::size_t ranks) {
    return {extent, {}, std::vector<Rows>(ranks, Rows{0, extent})};
  }
  /// A value that is cut at these bounds; each rank holds what it owns.
  static ValueParts cut(std::vector<std::int64_t> bounds);
};

/// Rows that travel between this rank and another one.
struct RowMessage {
  int peer;   ///< rank in the group
  Rows rows;  ///< of the whole value
  friend bool operator==(const RowMessage&, const RowMessage&) = default;
};

/// How a rank gets the rows that it wants. The gradients of these rows travel the other way.
struct RowTransfers {
  Rows own;                          ///< wanted, and in this rank's memory
  std::vector<RowMessage> receives;  ///< wanted rows of other ranks, by rank
  std::vector<RowMessage> sends;     ///< rows of this rank that others want, by rank
  std::vector<Rows> zeros;           ///< wanted rows beyond the edges that are not in memory
};

/// The transfers of rank `rank`, where rank r wants the rows wanted[r]. Between two ranks at most one message travels
/// in each direction.
RowTransfers row_transfers(const ValueParts& value, const std::vector<Rows>& wanted, int rank);

/// Cuts `extent` rows into `parts` parts of nearly equal size, whose bounds are multiples of a number of rows. That
/// number is `unit`, the product of the strides that follow, so that no window is cut; or `unit` divided by its
/// smallest prime factors, as long as a part is empty or the largest part has over 1.1 times its share.
std::vector<std::int64_t> part_bounds(std::int64_t extent, int parts, std::int64_t unit);

}  // namespace keelson
