#pragma once

#include <cstdint>
#include <vector>

#include "apps/climate/heuristics/components.hpp"
#include "apps/climate/heuristics/fields.hpp"

namespace keelson::climate {

/// Finds atmospheric rivers by a threshold and the shape of what is above it, as the labels of the public CAM5 data
/// were made (Kurth et al., "Exascale Deep Learning for Climate Analytics", SC18; azrael417/ClimDeepLearn). A measure
/// of moisture is damped towards the equator, by 1 - exp(-latitude^2 / (2 damping^2)), and compared with a threshold.
struct RiverHeuristic {
  /// What is compared: TMQ; or the older |V850| QREFHT, whose threshold is a percentile of its values.
  enum class Measure : std::uint8_t { water, flux };
  Measure measure = Measure::water;
  double threshold = 24;    ///< kg/m2; labels_0 of the public data has 24, labels_1 has 21
  double percentile = 94;   ///< of Measure::flux, over the snapshot
  double damping = 19;      ///< degrees; 10 with Measure::flux
  double diagonal = 1.5e6;  ///< m: rivers are longer, from corner to corner of the box around them
  double width = 1e6;       ///< m: rivers are narrower: area / north-south length
  bool wrap = false;        ///< rivers go on beyond the last column, which those of the public labels do not

  /// The older form.
  static RiverHeuristic of_flux() { return {.measure = Measure::flux, .damping = 10}; }
};

/// Whether what is above the threshold has the shape of a river. Distances have the Earth's radius 6371 km, the area
/// the published code's 6170 km. A box of one row or one column is no river.
bool is_river(const Component& component, const Grid& grid, const RiverHeuristic& heuristic);

/// 1 for the points of rivers (4-connected), else 0.
std::vector<std::uint8_t> find_rivers(const SnapshotFields& fields, const RiverHeuristic& heuristic);

}  // namespace keelson::climate
