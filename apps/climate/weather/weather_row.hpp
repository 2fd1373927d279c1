#pragma once

#include <cstdint>
#include <vector>

#include "apps/climate/weather/grid.hpp"

namespace keelson::climate {

/// The state of the atmosphere in one row of a grid, one value per column, in SI units. Rivers and cyclones add to it.
struct WeatherRow {
  double latitude = 0;             ///< radians
  std::vector<LocalFrame> frames;  ///< one per column
  std::vector<double> z1000, z200, t1000, t500, t200;
  std::vector<double> u850, v850, u1000, v1000;
  std::vector<double> river_water;   ///< column water that rivers add, kg/m2
  std::vector<double> saturation;    ///< column water of saturated air, kg/m2
  std::vector<double> water;         ///< column water, kg/m2
  std::vector<double> rain;          ///< rain of cyclones, m/s
  std::vector<std::uint8_t> labels;  ///< Class

  /// Resizes all fields to `columns` zeros.
  void clear(int columns) {
    const auto n = static_cast<std::size_t>(columns);
    frames.resize(n);
    for (auto* v :
         {&z1000, &z200, &t1000, &t500, &t200, &u850, &v850, &u1000, &v1000, &river_water, &saturation, &water, &rain})
      v->assign(n, 0);
    labels.assign(n, 0);
  }
};

}  // namespace keelson::climate
