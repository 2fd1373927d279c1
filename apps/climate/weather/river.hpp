#pragma once

#include <vector>

#include "apps/climate/weather/random.hpp"
#include "apps/climate/weather/weather_row.hpp"

namespace keelson::climate {

/// An atmospheric river: a low-level jet along a curved axis from the subtropics into the middle latitudes, with the
/// water that it carries and the low pressure on its poleward side. Widths, lengths and strengths follow Zhu and
/// Newell, Mon. Wea. Rev. 126 (1998) 725; Ralph et al., Mon. Wea. Rev. 132 (2004) 1721; Guan and Waliser, J. Geophys.
/// Res. 120 (2015) 12514; Shields et al., Geosci. Model Dev. 11 (2018) 2455.
class River {
 public:
  /// The result depends only on `key` and `number`.
  River(const SnapshotKey& key, int number);

  /// Adds wind, height and temperature, sets `river_water`, and labels the places where the river's strength is above
  /// 0.5.
  void add(WeatherRow& row) const;

 private:
  struct AxisPoint {
    LocalFrame frame;
    Vector along, left;  ///< unit vectors
    double before;       ///< length of the axis up to this point, m
  };
  struct Spot {
    double strength;  ///< of the jet's core at this position along the axis, 0 to 1
    double x;         ///< distance to the left of the axis, in half-widths
    Vector along;
  };
  Spot locate(const Vector& up) const;

  std::vector<AxisPoint> axis_;
  Vector middle_;
  double half_width_, speed_, water_;  ///< m, m/s, kg/m2
  double length_ = 0, reach_;          ///< m; radians around `middle_`
  double south_, north_;               ///< range of latitudes that the river changes
};

}  // namespace keelson::climate
