#pragma once

#include <cstdint>
#include <vector>

#include "apps/climate/heuristics/fields.hpp"

namespace keelson::climate {

/// Finds tropical cyclones in one snapshot, after the GFDL scheme (Vitart et al. 1997, Knutson et al. 2007) in the form
/// of TECA's teca_tc_candidates (Prabhat et al. 2012): a maximum of vorticity, and near it a minimum of pressure, a
/// warm core, a maximum of thickness, and strong wind. Extrema are taken over grid points; TECA uses bicubic splines.
/// Distances are in degrees along great circles; on a coarse grid, the neighbours of a point always count as near.
///
/// The default thresholds are the relaxed ones of the public labels; strict() returns TECA's.
struct CycloneHeuristic {
  double vorticity = 1e-5;     ///< least vorticity, 1/s at 850 hPa; anticlockwise in the north, clockwise in the south
  double window = 7.75;        ///< degrees; the vorticity is the largest in a square of this side
  double near = 2;             ///< degrees; largest distance to the extrema of pressure, core and thickness
  double pressure_rise = 100;  ///< Pa; rise of the pressure at sea level in all directions ...
  double pressure_distance = 5;   ///< ... within so many degrees
  double core_fall = 0.1;         ///< K; fall of (T200 + T500) / 2 in all directions ...
  double core_distance = 5;       ///< ... within so many degrees
  double thickness_fall = 50;     ///< m; fall of Z200 - Z1000 in all directions ...
  double thickness_distance = 4;  ///< ... within so many degrees
  double wind = 17;               ///< m/s; least wind in the lowest layer ...
  double wind_distance = 4;       ///< ... within so many degrees
  double highest_latitude = 40;   ///< degrees
  double margin = 6.6;            ///< degrees; the mask lies in the square centre +- (radius + margin)
  double percentile = 93;         ///< percentile of the values in the square; points above it belong to the mask

  /// The thresholds of TECA.
  static CycloneHeuristic strict() { return {.vorticity = 1.6e-4, .pressure_rise = 400, .core_fall = 0.8}; }
};

struct CycloneCandidate {
  int row = 0, column = 0;  ///< position of the lowest pressure
  double pressure = 0;      ///< lowest pressure at sea level, Pa
  double vorticity = 0;     ///< largest vorticity, 1/s
  double wind = 0;          ///< strongest wind, m/s
  double radius = 0;        ///< distance of the strongest wind, degrees
};

/// The cyclones of a snapshot, from south to north.
std::vector<CycloneCandidate> find_cyclones(const SnapshotFields& fields, const CycloneHeuristic& heuristic);

/// 1 for the points of cyclones, else 0. Around each cyclone, and for each of TMQ, U850, V850 and PRECT, the largest
/// component (8-connected) of the points above the percentile is taken; the mask is the largest component of all four
/// together. Columns of the square are periodic.
std::vector<std::uint8_t> cyclone_mask(const SnapshotFields& fields, const std::vector<CycloneCandidate>& cyclones,
                                       const CycloneHeuristic& heuristic);

}  // namespace keelson::climate
