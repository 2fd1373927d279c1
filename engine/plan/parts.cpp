#include "engine/plan/parts.hpp"

#include <cmath>

#include "engine/base/error.hpp"

namespace keelson {

ValueParts ValueParts::cut(std::vector<std::int64_t> bounds) {
  ValueParts v{bounds.back(), std::move(bounds), {}};
  for (std::size_t r = 0; r + 1 < v.bounds.size(); ++r) v.held.push_back(v.owned(r));
  return v;
}

namespace {

/// Calls visit(rows) for the rows of `wanted` before and behind those in memory, where there are any.
template <class Visit>
void for_missing(const Rows& wanted, const Rows& held, const Visit& visit) {
  const Rows own = wanted.common(held);
  if (own.empty()) return wanted.empty() ? void() : visit(wanted);
  if (wanted.begin < own.begin) visit(Rows{wanted.begin, own.begin});
  if (own.end < wanted.end) visit(Rows{own.end, wanted.end});
}

}  // namespace

RowTransfers row_transfers(const ValueParts& value, const std::vector<Rows>& wanted, int rank) {
  const std::size_t ranks = wanted.size(), me = static_cast<std::size_t>(rank);
  RowTransfers t{wanted[me].common(value.held[me]), {}, {}, {}};
  const auto from = [&](std::size_t owner, std::size_t reader, std::vector<RowMessage>& into, std::size_t peer) {
    for_missing(wanted[reader], value.held[reader], [&](const Rows& missing) {
      const Rows rows = missing.common(value.owned(owner));
      if (!rows.empty()) into.push_back({static_cast<int>(peer), rows});
    });
  };
  for (std::size_t other = 0; value.is_cut() && other < ranks; ++other) {
    if (other == me) continue;
    from(other, me, t.receives, other);
    from(me, other, t.sends, other);
  }
  for_missing(wanted[me], value.held[me], [&](const Rows& missing) {
    for (const Rows& beyond : {Rows{missing.begin, std::min<std::int64_t>(missing.end, 0)},
                               Rows{std::max(missing.begin, value.extent), missing.end}})
      if (!beyond.empty()) t.zeros.push_back(beyond);
  });
  return t;
}

std::vector<std::int64_t> part_bounds(std::int64_t extent, int parts, std::int64_t unit) {
  KEELSON_EXPECT(extent >= 1 && parts >= 1 && unit >= 1);
  const auto bounds_of = [&](std::int64_t u) {
    std::vector<std::int64_t> bounds;
    const std::int64_t units = (extent + u - 1) / u;
    for (int r = 0; r <= parts; ++r)
      bounds.push_back(std::min(extent, u * ((2 * r * units + parts) / (2 * parts))));  // rounded
    return bounds;
  };
  const auto is_uneven = [&](const std::vector<std::int64_t>& bounds) {
    std::int64_t least = extent, most = 0;
    for (std::size_t r = 0; r + 1 < bounds.size(); ++r) {
      least = std::min(least, bounds[r + 1] - bounds[r]);
      most = std::max(most, bounds[r + 1] - bounds[r]);
    }
    return least == 0 || 10 * parts * most > 11 * extent;
  };
  auto bounds = bounds_of(unit);
  while (unit > 1 && is_uneven(bounds)) {
    std::int64_t factor = 2;
    while (unit % factor != 0) ++factor;
    unit /= factor;
    bounds = bounds_of(unit);
  }
  return bounds;
}

}  // namespace keelson
