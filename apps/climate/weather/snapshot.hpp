#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "apps/climate/weather/channels.hpp"
#include "apps/climate/weather/weather.hpp"

namespace keelson::climate {

/// Sums over the values of each channel, from which means and deviations are computed.
struct ChannelSums {
  std::array<double, kChannels> sum{}, squares{};
  std::array<float, kChannels> least{}, most{};
};

/// The fields of a state of the atmosphere, as in the public CAM5 data, and the true classes.
struct Snapshot {
  Grid grid;
  std::vector<float> data;    ///< (H, W, 16), SI units
  std::vector<float> labels;  ///< (H, W): 0, 1 or 2 (Class)
  ChannelSums sums;           ///< sums of `data`
  std::array<std::int64_t, kClasses> pixels{};
  int cyclones = 0, rivers = 0;
};

/// Fills `dst`, in `threads` threads. `noise`: standard deviation of the white noise in each channel, in units of the
/// channel's standard deviation; precipitation stays 0 or positive. The result has the same bits for any number of
/// threads.
void make_snapshot(const Weather& weather, const SnapshotKey& key, double noise, int threads, Snapshot& dst);

}  // namespace keelson::climate
