#pragma once

#include <memory>
#include <vector>

#include "apps/climate/weather/cyclone.hpp"
#include "apps/climate/weather/river.hpp"
#include "apps/climate/weather/synthesis.hpp"
#include "apps/climate/weather/weather_row.hpp"

namespace keelson::climate {

/// How many objects a snapshot has on average. The defaults give the shares of pixels that MLPerf HPC's DeepCAM states:
/// 0.046 % cyclones, 1.33 % rivers.
struct Rates {
  double cyclones = 1.7, rivers = 4.3;
};

/// One state of the atmosphere, drawn at random and consistent: winds without divergence, heights in linear balance
/// with them, temperatures in hydrostatic balance with the heights, moisture bounded by saturation; with rivers and
/// cyclones in it. Depends only on grid, key and rates. A finer grid shows the same weather and also smaller scales.
class Weather {
 public:
  /// Throws InputError as check(grid) does.
  Weather(const Grid& grid, const SnapshotKey& key, const Rates& rates);

  const Grid& grid() const { return grid_; }
  const std::vector<River>& rivers() const { return rivers_; }
  const std::vector<Cyclone>& cyclones() const { return cyclones_; }

  /// Working memory of a thread.
  struct Workspace {
    Synthesis::Row flow;
    Synthesis::Scratch scratch;
  };
  /// The state in one row. At each place z200 - z1000 is thickness(t1000, t500, t200) to rounding. Threads may make
  /// rows at the same time, each with its own `dst` and workspace.
  void make_row(int row, WeatherRow& dst, Workspace& work) const;

 private:
  void zonal_heights();
  void background(int row, WeatherRow& dst, Workspace& work) const;
  void moisten(WeatherRow& dst, const std::vector<double>& eta) const;

  Grid grid_;
  std::vector<double> zonal_z1000_;  ///< m, by row
  std::unique_ptr<Synthesis> synthesis_;
  std::vector<River> rivers_;
  std::vector<Cyclone> cyclones_;
};

}  // namespace keelson::climate
