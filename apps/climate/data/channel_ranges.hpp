#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"

namespace keelson::climate {

class SnapshotDataset;

/// Smallest and largest value of each channel over a training set, in SI units. Snapshots are normalised to
/// (x - least) / (most - least). Empty: they are not normalised.
struct ChannelRanges {
  std::vector<float> least;  ///< one for each channel
  std::vector<float> most;   ///< one for each channel
  /// True: the ranges belong to the channels that a data set has chosen, in its order. False: they belong to all 16
  /// channels, or to those that the files hold, as in statistics files.
  bool chosen = false;

  /// True: snapshots are not normalised.
  bool empty() const { return least.empty(); }
  /// Number of channels.
  std::size_t size() const { return least.size(); }
  friend bool operator==(const ChannelRanges&, const ChannelRanges&) = default;
};

/// Reads a statistics file of either public layout: MLPerf HPC's `climate/minval` and `climate/maxval`, or SC18's
/// `climate/stats` (channels, 4) with the columns mean, largest, smallest, standard deviation. Throws InputError for a
/// file with neither layout, and for ranges that are not finite or whose least value is above the largest.
ChannelRanges read_ranges(const std::string& path);

/// Finds the ranges of the samples of `data`, which must not be normalised, without the samples `left_out` (sorted).
/// Each sample is read once, by one rank; the result does not depend on the number of ranks. Throws InputError on all
/// ranks for data that cannot be read. `world` null: one rank. Collective.
ChannelRanges measure_ranges(const SnapshotDataset& data, Communicator* world,
                             const std::vector<std::int64_t>& left_out = {});

}  // namespace keelson::climate
