#pragma once

#include <string>
#include <vector>

#include "engine/base/communicator.hpp"

namespace keelson::climate {

class SnapshotDataset;

/// Smallest and largest value of each channel over a training set, in SI units. Snapshots are normalised to
/// (x - least) / (most - least). Empty: they are not normalised.
struct ChannelRanges {
  std::vector<float> least;  ///< one for each channel
  std::vector<float> most;   ///< as many
  /// Whether they are those of the channels that a data set has chosen, in its order. Else they are of all 16 channels,
  /// or of those that its files hold, as statistics files have them.
  bool chosen = false;

  /// Whether snapshots are left as they are.
  bool empty() const { return least.empty(); }
  /// Number of channels.
  std::size_t size() const { return least.size(); }
  friend bool operator==(const ChannelRanges&, const ChannelRanges&) = default;
};

/// Reads a statistics file of either public layout: MLPerf HPC's `climate/minval` and `climate/maxval`, or SC18's
/// `climate/stats` (channels, 4) with the columns mean, largest, smallest, standard deviation. Throws InputError for a
/// file with neither, and for ranges that are not finite or upside down.
ChannelRanges read_ranges(const std::string& path);

/// Reads all samples of `data`, which is not normalised, once, each by one rank, and finds their ranges: the same on
/// any number of ranks. Throws InputError on all ranks for data that cannot be read. `world` null: alone. Collective.
ChannelRanges measure_ranges(const SnapshotDataset& data, Communicator* world);

}  // namespace keelson::climate
