#pragma once

#include <algorithm>
#include <cmath>

namespace keelson::tabular {

/// Energy and momentum of a particle, in GeV, with c = 1. z is the direction of the beams.
struct FourVector {
  double e = 0, x = 0, y = 0, z = 0;

  FourVector operator+(const FourVector& o) const { return {e + o.e, x + o.x, y + o.y, z + o.z}; }
  FourVector operator*(double factor) const { return {e * factor, x * factor, y * factor, z * factor}; }
  double momentum() const { return std::sqrt(x * x + y * y + z * z); }
  double transverse() const { return std::hypot(x, y); }  ///< pT
  double azimuth() const { return std::atan2(y, x); }     ///< phi
  /// Pseudorapidity: eta = atanh(z / |p|).
  double pseudorapidity() const { return std::atanh(z / momentum()); }
  double mass() const { return std::sqrt(std::max(0.0, e * e - x * x - y * y - z * z)); }

  /// Without mass.
  static FourVector massless(double transverse, double pseudorapidity, double azimuth) {
    return {transverse * std::cosh(pseudorapidity), transverse * std::cos(azimuth), transverse * std::sin(azimuth),
            transverse * std::sinh(pseudorapidity)};
  }
};

/// A vector given in the rest frame of `frame`, as the laboratory sees it (Lorentz boost).
inline FourVector boosted(const FourVector& v, const FourVector& frame) {
  const double m = frame.mass(), along = v.x * frame.x + v.y * frame.y + v.z * frame.z;
  const double e = (frame.e * v.e + along) / m, factor = (v.e + e) / (frame.e + m);
  return {e, v.x + factor * frame.x, v.y + factor * frame.y, v.z + factor * frame.z};
}

}  // namespace keelson::tabular
