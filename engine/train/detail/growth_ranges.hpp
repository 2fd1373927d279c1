#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "engine/train/growth.hpp"

namespace keelson::detail {

/// The units of a group at first, and at most.
struct UnitRange {
  std::int64_t least, most;
};

/// What GrowthOptions say of the layers of one network.
class GrowthRanges {
 public:
  /// `graph`: the program's network, which may go before this. Throws as starting_network().
  GrowthRanges(const Graph& graph, const GrowthOptions& options);

  /// Of a group of the program's network, or of that network with copies, whose units are those of their layers.
  UnitRange units_of(const UnitGroup& group) const;
  const LayerCopies& least_copies() const { return least_copies_; }
  /// Of the layers that may get copies.
  const LayerCopies& most_copies() const { return most_copies_; }
  /// 0: no limit.
  std::int64_t most_parameters() const { return most_parameters_; }

 private:
  void read_widths(const Graph& graph, const GrowthOptions& options);
  void read_depth(const Graph& graph, const GrowthOptions& options);

  std::map<std::string, UnitRange> by_layer_;
  LayerCopies least_copies_, most_copies_;
  std::int64_t most_parameters_ = 0;
};

}  // namespace keelson::detail
