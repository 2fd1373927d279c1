#include "apps/climate/data/channel_ranges.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "apps/climate/data/snapshot_dataset.hpp"
#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"
#include "engine/data/good_samples.hpp"
#include "engine/data/hdf5/hdf5.hpp"

namespace keelson::climate {
namespace {

constexpr const char *kMinima = "climate/minval", *kMaxima = "climate/maxval", *kStatistics = "climate/stats";

ChannelRanges read_lists(const hdf5::File& file) {
  const ChannelRanges r{file.read<float>(kMinima), file.read<float>(kMaxima)};
  if (r.least.size() != r.most.size() || r.empty()) {
    refuse("{}: '{}' has {} and '{}' {} values. Expected one of each for every channel; make the statistics anew",
           file.path(), kMinima, r.least.size(), kMaxima, r.most.size());
  }
  return r;
}

ChannelRanges read_table(const hdf5::File& file) {
  constexpr std::size_t columns = 4, most = 1, least = 2;
  const auto shape = file.info(kStatistics).shape;
  if (shape.size() != 2 || shape[0] == 0 || shape[1] != columns) {
    refuse(
        "{}: '{}' is {}. Expected (channels, 4), the columns mean, largest, smallest value and standard deviation; "
        "make "
        "the statistics anew",
        file.path(), kStatistics, hdf5::to_string(shape));
  }
  const auto table = file.read<float>(kStatistics);
  ChannelRanges r;
  for (std::size_t i = 0; i < table.size(); i += columns) {
    r.least.push_back(table[i + least]);
    r.most.push_back(table[i + most]);
  }
  return r;
}

}  // namespace

ChannelRanges read_ranges(const std::string& path) {
  const auto file = hdf5::File::open(path);
  if (!(file.has(kMinima) && file.has(kMaxima)) && !file.has(kStatistics)) {
    refuse(
        "{}: holds no statistics of channels. Expected '{}' and '{}' (as in MLPerf HPC) or '{}' (as in SC18); name "
        "another file, or leave it out: then the statistics are computed from the training data",
        path, kMinima, kMaxima, kStatistics);
  }
  const ChannelRanges r = file.has(kMinima) ? read_lists(file) : read_table(file);
  for (std::size_t c = 0; c < r.size(); ++c) {
    if (!std::isfinite(r.least[c]) || !std::isfinite(r.most[c]) || r.least[c] > r.most[c]) {
      refuse("{}: channel {} ranges from {} to {}. Expected finite numbers in this order; make the statistics anew",
             path, c, r.least[c], r.most[c]);
    }
  }
  return r;
}

ChannelRanges measure_ranges(const SnapshotDataset& data, Communicator* world,
                             const std::vector<std::int64_t>& left_out) {
  const GoodSamples samples(data, left_out);
  const auto channels = static_cast<std::size_t>(data.fields()[0].shape[0]);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  ChannelRanges r{std::vector(channels, infinity), std::vector(channels, -infinity), true};
  on_each_rank(world, [&] {
    std::vector<float> x(static_cast<std::size_t>(data.fields()[0].shape.elements()));
    const std::int64_t first = world ? world->rank() : 0, step = world ? world->size() : 1;
    for (std::int64_t i = first; i < samples.size(); i += step) {
      data.read_data(samples.original(i), x.data());
      for (std::size_t at = 0; at < x.size(); at += channels) {
        for (std::size_t c = 0; c < channels; ++c) {
          r.least[c] = std::min(r.least[c], x[at + c]);
          r.most[c] = std::max(r.most[c], x[at + c]);
        }
      }
    }
  });
  if (world) {
    world->allreduce(r.least.data(), channels, Reduction::min);
    world->allreduce(r.most.data(), channels, Reduction::max);
  }
  return r;
}

}  // namespace keelson::climate
