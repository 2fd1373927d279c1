#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

/// Simulated X-ray diffraction images of water droplets, liquid or partly frozen, as a free-electron laser records them
/// one shot at a time (Sellberg et al., "Ultrafast X-ray probing of water structure below the homogeneous ice
/// nucleation temperature", Nature 510, 2014): liquid water gives two broad rings, ice gives sharp rings and spots on
/// top of them.
///
/// The shapes are a model of their own, made to be learned from: figures on these images are not those on measured
/// ones.
namespace keelson::label {

/// A flat detector of square pixels, perpendicular to the beam. Lengths in mm.
struct Detector {
  std::int64_t size = 128;    ///< pixels of an edge
  double half_width = 110;    ///< of the detector
  double distance = 105;      ///< from the droplet
  double beam_stop = 12;      ///< radius of the disk in the middle that sees nothing
  double gap = 2;             ///< half the width of the two gaps between its four panels
  double wavelength = 1.305;  ///< in Angstrom: 9.5 keV

  /// Length of the momentum transfer, 4 pi / wavelength sin(theta), at this distance from the beam's centre;
  /// 1/Angstrom.
  double q_of(double radius) const;
};

/// What can be drawn: the parameters of the population.
struct ShotOptions {
  Detector detector;
  double ice = 0.5;  ///< part of the shots with ice
  /// Median of the photons at the water's peak, per pixel of a detector of 128 x 128; wider pixels see more.
  double photons = 40;
  double least_ice = 0.08;  ///< least part of the photons that ice scatters, in a shot with ice
  double cubic = 0;         ///< part of the shots with ice whose ice is cubic
  double empty = 0;         ///< part of the shots that hit no droplet: background alone
  double two_droplets = 0;  ///< part of the shots that hit two droplets, each of them water or ice
};

/// One image.
struct Shot {
  int droplets = 1;           ///< 0, 1 or 2
  bool ice = false;           ///< in any droplet
  double ice_part = 0;        ///< of the photons that the droplets scatter; 0 for water
  double supercooling = 0;    ///< of the first droplet; 0: at the melting point, 1: as cold as it gets
  std::vector<float> counts;  ///< (size, size), row-major; NaN: no pixel there, or a dead one
};

/// A line of hexagonal ice (Ih).
struct IceLine {
  int h, k, l;
  double brightness;  ///< of a powder's ring, the line 100 has 100
  bool cubic;         ///< cubic ice has a line at this place, too

  double d() const;  ///< distance of the lattice planes, in Angstrom (a 4.511, c 7.346)
  double q() const;  ///< 2 pi / d
};
/// The lines up to 4.2 / Angstrom.
const std::array<IceLine, 11>& ice_lines();

/// What liquid water scatters, as a function of q in 1/Angstrom: about 1 at its first peak. `supercooling` in [0, 1]
/// moves the peaks apart and lifts the second one.
double water_factor(double q, double supercooling);

/// The part of the light that is scattered in the direction of these two angles, for a beam whose polarization is
/// horizontal to 99 %.
double polarization_factor(double two_theta, double azimuth);

/// Shot `index` of a set: the same for the same options, seed, set and index, anywhere. Pixels that are wider than the
/// rings of ice are means over 2 x 2 or more points.
Shot make_shot(const ShotOptions& options, std::uint64_t seed, const std::string& set, std::int64_t index);

}  // namespace keelson::label
