#include "apps/climate/weather/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/atomic_file.hpp"
#include "engine/data/hdf5/hdf5.hpp"

namespace keelson::climate {

ChannelStatistics channel_statistics(const ChannelSums& sums, std::int64_t points) {
  ChannelStatistics s;
  for (int c = 0; c < kChannels; ++c) {
    const double n = static_cast<double>(points), mean = sums.sum[c] / n, mean_square = sums.squares[c] / n;
    s.mean[c] = static_cast<float>(mean);
    s.mean_square[c] = static_cast<float>(mean_square);
    s.deviation[c] = static_cast<float>(std::sqrt(std::max(0.0, mean_square - mean * mean)));
  }
  s.least = sums.least;
  s.most = sums.most;
  return s;
}

void StatisticsSums::add(const ChannelSums& sums, const std::array<std::int64_t, kClasses>& pixels) {
  for (int c = 0; c < kChannels; ++c) {
    sums_[c].add(sums.sum[c]);
    sums_[kChannels + c].add(sums.squares[c]);
    least_[c] = snapshots_ == 0 ? sums.least[c] : std::min(least_[c], sums.least[c]);
    most_[c] = snapshots_ == 0 ? sums.most[c] : std::max(most_[c], sums.most[c]);
  }
  for (int k = 0; k < kClasses; ++k) pixels_[k] += pixels[k];
  ++snapshots_;
}

Statistics StatisticsSums::reduce(Communicator& world) {
  if (snapshots_ == 0) {  // this rank has no snapshots
    least_.fill(std::numeric_limits<float>::infinity());
    most_.fill(-std::numeric_limits<float>::infinity());
  }
  world.allreduce(&snapshots_, 1, Reduction::sum);
  world.allreduce(pixels_.data(), kClasses, Reduction::sum);
  world.allreduce(least_.data(), kChannels, Reduction::min);
  world.allreduce(most_.data(), kChannels, Reduction::max);
  ExactSum::reduce(sums_, &world);
  Statistics all{.snapshots = snapshots_};
  if (snapshots_ == 0) return all;
  ChannelSums sums{.least = least_, .most = most_};
  for (int c = 0; c < kChannels; ++c) {
    sums.sum[c] = sums_[c].value();
    sums.squares[c] = sums_[kChannels + c].value();
  }
  std::int64_t points = 0;
  for (const std::int64_t n : pixels_) points += n;
  all.channels = channel_statistics(sums, points);
  for (int k = 0; k < kClasses; ++k) all.shares[k] = static_cast<double>(pixels_[k]) / static_cast<double>(points);
  return all;
}

void write_statistics(const std::filesystem::path& path, const Statistics& statistics,
                      const std::string& configuration) {
  AtomicFile target(path, Target::hdf5);
  auto file = hdf5::File::create(target.temporary().string());
  const ChannelStatistics& s = statistics.channels;
  file.write("climate/count", &statistics.snapshots, {});
  file.write("climate/mean", s.mean.data(), {kChannels});
  file.write("climate/sqmean", s.mean_square.data(), {kChannels});
  file.write("climate/minval", s.least.data(), {kChannels});
  file.write("climate/maxval", s.most.data(), {kChannels});
  std::array<float, 4 * kChannels> table;
  for (int c = 0; c < kChannels; ++c) {
    const float row[] = {s.mean[c], s.most[c], s.least[c], s.deviation[c]};
    std::copy_n(row, 4, &table[4 * c]);
  }
  file.write("climate/stats", table.data(), {kChannels, 4});
  file.set_attribute("/", "channel_names", std::vector<std::string>(kChannelNames.begin(), kChannelNames.end()));
  file.set_attribute("/", "class_frequencies", std::vector<double>(statistics.shares.begin(), statistics.shares.end()));
  file.set_attribute("/", "configuration", configuration);
  file.close();
  target.commit();
}

}  // namespace keelson::climate
