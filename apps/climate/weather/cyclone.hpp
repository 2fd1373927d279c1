#pragma once

#include "apps/climate/weather/random.hpp"
#include "apps/climate/weather/weather_row.hpp"

namespace keelson::climate {

/// A tropical cyclone with the wind and pressure of Holland, Mon. Wea. Rev. 108 (1980) 1212, a warm core, water and
/// rain. Radius of the largest wind: Willoughby, Darling and Rahn, Mon. Wea. Rev. 134 (2006) 1102, equation 7a, but at
/// least 50 km. Rain: shaped as in Tuleya, DeMaria and Kuligowski, Wea. Forecasting 22 (2007) 56.
class Cyclone {
 public:
  /// The result depends only on `key` and `number`.
  Cyclone(const SnapshotKey& key, int number);

  double wind(double r) const;     ///< tangential wind, m/s, at r metres from the centre
  double deficit(double r) const;  ///< deficit of the pressure, Pa

  /// Adds wind, low pressure, warmth, water and rain, and labels the places up to the outer radius of winds of 12 m/s
  /// (Chavas and Emanuel, Geophys. Res. Lett. 37 (2010) L18816). Does not change the row's z200, which follows from the
  /// other fields.
  void add(WeatherRow& row) const;

  const LocalFrame& centre() const { return centre_; }
  double latitude() const { return latitude_; }         ///< of the centre, radians
  double strongest_wind() const { return strongest_; }  ///< m/s, without the Earth's rotation
  double radius() const { return radius_; }             ///< radius of the strongest wind, m

 private:
  double profile(double r) const;  ///< (R/r)^B
  double rain(double r) const;     ///< m/s

  double latitude_, strongest_, radius_;
  double shape_, drop_;  ///< Holland's B; pressure of the surroundings less that of the centre, Pa
  LocalFrame centre_;
};

}  // namespace keelson::climate
