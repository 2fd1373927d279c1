#pragma once

#include <cstdint>
#include <vector>

#include "apps/climate/heuristics/cyclones.hpp"
#include "apps/climate/heuristics/rivers.hpp"

namespace keelson::climate {

struct LabelHeuristics {
  RiverHeuristic river;
  CycloneHeuristic cyclone;
};

/// Classes of points, from masks of rivers and cyclones; a point in both masks is a cyclone.
std::vector<std::int32_t> combine(const std::vector<std::uint8_t>& rivers, const std::vector<std::uint8_t>& cyclones);

/// The class of each point (rows, columns) by the heuristics.
std::vector<std::int32_t> heuristic_labels(const SnapshotFields& fields, const LabelHeuristics& heuristics);

}  // namespace keelson::climate
