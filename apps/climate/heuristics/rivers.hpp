#pragma once

#include <cstdint>
#include <vector>

#include "apps/climate/heuristics/components.hpp"
#include "apps/climate/heuristics/fields.hpp"

namespace keelson::climate {

/// Finds atmospheric rivers by a threshold and the shape of the region above it, as for the labels of the public CAM5
/// data (Kurth et al., "Exascale Deep Learning for Climate Analytics", SC18; azrael417/ClimDeepLearn). A measure of
/// moisture is damped towards the equator, by 1 - exp(-latitude^2 / (2 damping^2)), and compared with a threshold.
struct RiverHeuristic {
  /// The quantity that is compared: TMQ; or the older |V850| QREFHT, whose threshold is a percentile of its values.
  enum class Measure : std::uint8_t { water, flux };
  Measure measure = Measure::water;
  double threshold = 24;    ///< kg/m2; labels_0 of the public data has 24, labels_1 has 21
  double percentile = 94;   ///< for Measure::flux, over the snapshot
  double damping = 19;      ///< degrees; 10 with Measure::flux
  double diagonal = 1.5e6;  ///< m: rivers are longer, measured along the diagonal of the bounding box
  double width = 1e6;       ///< m: rivers are narrower: area / north-south length
  bool wrap = false;        ///< rivers continue beyond the last column; those of the public labels do not

  /// The older form.
  static RiverHeuristic of_flux() { return {.measure = Measure::flux, .damping = 10}; }
};

/// Whether a region above the threshold has the shape of a river. Distances are computed with an Earth's radius of 6371
/// km, the area with 6170 km as in the published code. A box of one row or one column is no river.
bool is_river(const Component& component, const Grid& grid, const RiverHeuristic& heuristic);

/// 1 for the points of rivers (4-connected), else 0.
std::vector<std::uint8_t> find_rivers(const SnapshotFields& fields, const RiverHeuristic& heuristic);

}  // namespace keelson::climate
