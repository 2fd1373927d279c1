#pragma once

#include <cstdint>
#include <vector>

#include "apps/climate/heuristics/fields.hpp"

namespace keelson::climate {

/// Finds tropical cyclones in one snapshot, after the GFDL scheme (Vitart et al. 1997, Knutson et al. 2007) in the form
/// of TECA's teca_tc_candidates (Prabhat et al. 2012): a maximum of vorticity, beside it a minimum of pressure, a warm
/// core and a maximum of thickness, and wind. Extrema are those of grid points; TECA has bicubic splines. Distances are
/// in degrees along great circles; on a coarse grid, neighbours of a point are near it whatever their distance.
///
/// The thresholds here are the relaxed ones of the public labels. TECA's own are strict().
struct CycloneHeuristic {
  double vorticity = 1e-5;        ///< 1/s at 850 hPa, anticlockwise in the north, clockwise in the south, at least
  double window = 7.75;           ///< it is the largest one in a square of so many degrees
  double near = 2;                ///< pressure, core and thickness have their extrema so near to it
  double pressure_rise = 100;     ///< Pa at sea level, in all directions,
  double pressure_distance = 5;   ///< within so far
  double core_fall = 0.1;         ///< K, of (T200 + T500) / 2, in all directions,
  double core_distance = 5;       ///< within so far
  double thickness_fall = 50;     ///< m, of Z200 - Z1000, in all directions,
  double thickness_distance = 4;  ///< within so far
  double wind = 17;               ///< m/s in the lowest layer, at least,
  double wind_distance = 4;       ///< within so far
  double highest_latitude = 40;   ///< degrees
  double margin = 6.6;            ///< degrees; the mask lies in the square centre +- (radius + margin)
  double percentile = 93;         ///< of the values in it: what is above it belongs to the mask

  /// The thresholds of TECA.
  static CycloneHeuristic strict() { return {.vorticity = 1.6e-4, .pressure_rise = 400, .core_fall = 0.8}; }
};

struct CycloneCandidate {
  int row = 0, column = 0;  ///< of the lowest pressure
  double pressure = 0;      ///< there, at sea level, Pa
  double vorticity = 0;     ///< the largest, 1/s
  double wind = 0;          ///< the strongest, m/s
  double radius = 0;        ///< distance of the strongest wind, degrees
};

/// The cyclones of a snapshot, from south to north.
std::vector<CycloneCandidate> find_cyclones(const SnapshotFields& fields, const CycloneHeuristic& heuristic);

/// 1 for the points of cyclones, else 0. Around each, of TMQ, U850, V850 and PRECT, the largest component (8-connected)
/// of the points above the percentile is taken; the mask is the largest component of all four together. The square goes
/// on beyond the last column.
std::vector<std::uint8_t> cyclone_mask(const SnapshotFields& fields, const std::vector<CycloneCandidate>& cyclones,
                                       const CycloneHeuristic& heuristic);

}  // namespace keelson::climate
