#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>

#include "apps/climate/weather/snapshot.hpp"
#include "engine/base/communicator.hpp"
#include "engine/base/exact_sum.hpp"

namespace keelson::climate {

/// Mean, largest, smallest value and standard deviation, by channel.
struct ChannelStatistics {
  std::array<float, kChannels> mean{}, most{}, least{}, deviation{}, mean_square{};
};

/// The statistics of `points` values per channel.
ChannelStatistics channel_statistics(const ChannelSums& sums, std::int64_t points);

/// Statistics of a set of snapshots.
struct Statistics {
  std::int64_t snapshots = 0;
  ChannelStatistics channels;
  std::array<double, kClasses> shares{};  ///< shares of the classes in all pixels
};

/// Exact sums over snapshots: the result depends neither on their order nor on their distribution over ranks.
class StatisticsSums {
 public:
  void add(const ChannelSums& sums, const std::array<std::int64_t, kClasses>& pixels);
  /// The statistics of the snapshots of all ranks; all ranks get the result. Call it once. Collective.
  Statistics reduce(Communicator& world);

 private:
  std::int64_t snapshots_ = 0;
  std::array<ExactSum, 2 * kChannels> sums_;  ///< sums of values, then sums of squares
  std::array<float, kChannels> least_{}, most_{};
  std::array<std::int64_t, kClasses> pixels_{};
};

/// Writes both public layouts to one file, atomically: MLPerf HPC's `climate/{count,mean,sqmean,minval,maxval}` and
/// SC18's `climate/stats` (16, 4). Attributes: class_frequencies, channel_names and `configuration`.
void write_statistics(const std::filesystem::path& path, const Statistics& statistics,
                      const std::string& configuration);

}  // namespace keelson::climate
