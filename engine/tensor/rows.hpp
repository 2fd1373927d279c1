#pragma once

#include <algorithm>
#include <cstdint>

namespace keelson {

/// The rows `begin` to `end` - 1 of a value: its elements with these indices along one dimension. Rows below 0, and
/// from the value's extent on, lie beyond the edges of the value.
struct Rows {
  std::int64_t begin = 0;  ///< first row
  std::int64_t end = 0;    ///< behind the last row

  std::int64_t size() const { return end - begin; }  ///< number of rows
  bool empty() const { return end <= begin; }        ///< whether there are none
  /// The rows that are in both; empty if there are none.
  Rows common(const Rows& other) const { return {std::max(begin, other.begin), std::min(end, other.end)}; }
  /// The least range of rows that has both. An empty range adds nothing.
  Rows hull(const Rows& other) const {
    if (empty()) return other;
    return other.empty() ? *this : Rows{std::min(begin, other.begin), std::max(end, other.end)};
  }
  friend bool operator==(const Rows&, const Rows&) = default;
};

}  // namespace keelson
