#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

/// Constants and formulas of the atmosphere, in SI units.
namespace keelson::climate {

inline constexpr double kRadius = 6.371e6;  ///< radius of the Earth, m
inline constexpr double kOmega = 7.292e-5;  ///< rotation of the Earth, 1/s
inline constexpr double kGravity = 9.80616;
inline constexpr double kRd = 287.04;   ///< gas constant of dry air, J/(kg K)
inline constexpr double kCp = 1004.64;  ///< heat capacity of dry air, J/(kg K)
inline constexpr double kDegree = std::numbers::pi / 180;

inline double square(double x) { return x * x; }

inline double clip(double x, double least, double most) { return std::min(std::max(x, least), most); }

/// Rises from 0 at x = 0 to 1 at x = 1, smooth at both ends.
inline double rise(double x) { return square(std::sin(std::numbers::pi / 2 * clip(x, 0, 1))); }

inline double coriolis(double latitude) { return 2 * kOmega * std::sin(latitude); }

/// Specific humidity of saturated air (kg/kg) at `temperature` (K) and `pressure` (Pa). Vapour pressure: Bolton, Mon.
/// Wea. Rev. 108 (1980) 1046.
inline double saturation_humidity(double temperature, double pressure) {
  const double e = 611.2 * std::exp(17.67 * (temperature - 273.15) / (temperature - 29.65));
  return 0.622 * e / (pressure - 0.378 * e);
}

/// Zonal mean of the temperature (K) at `pressure` (Pa): the equilibrium of Held and Suarez, Bull. Amer. Meteor. Soc.
/// 75 (1994) 1825.
inline double zonal_temperature(double latitude, double pressure) {
  const double ratio = pressure / 1e5;
  const double potential = 315 - 60 * square(std::sin(latitude)) - 10 * std::log(ratio) * square(std::cos(latitude));
  return std::max(200.0, potential * std::pow(ratio, kRd / kCp));
}

/// Pressure at sea level (Pa) where the 1000 hPa surface lies at height `z1000` (m) and has `t1000` (K).
inline double sea_level_pressure(double z1000, double t1000) {
  return 1e5 * std::exp(kGravity * z1000 / (kRd * t1000));
}

/// Height of 200 above 1000 hPa (m): the hydrostatic equation, with temperatures linear in ln p between the levels.
inline double thickness(double t1000, double t500, double t200) {
  return kRd / kGravity * (std::log(2.0) * (t1000 + t500) / 2 + std::log(2.5) * (t500 + t200) / 2);
}

}  // namespace keelson::climate
