#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "apps/climate/data/snapshot_dataset.hpp"
#include "apps/climate/run_options.hpp"
#include "apps/common/evaluation.hpp"
#include "engine/base/communicator.hpp"
#include "engine/graph/graph.hpp"
#include "engine/optim/schedule.hpp"
#include "engine/train/metrics/intersection_over_union.hpp"

namespace keelson::climate {

inline constexpr app::NetworkFamily family{"climate-", "climate segmentation"};
std::string network_name(const RunOptions& o);   ///< "climate-tiramisu"
std::string network_title(const RunOptions& o);  ///< for messages: "Tiramisu"

/// The number of which the grid's extents must be multiples.
std::int64_t grid_multiple(const RunOptions& o);

/// The snapshots under `path`, for the network of `o`, in SI units. Throws InputError for data that cannot be used; up
/// to `skip_broken` files are left out instead. `copies`: of the files. Collective.
std::unique_ptr<SnapshotDataset> open_snapshots(const RunOptions& o, const std::string& path, Communicator& world,
                                                std::int64_t skip_broken = 0,
                                                std::shared_ptr<const FileCopies> copies = nullptr);

/// The ranges for the normalisation of channels: from --stats, or from stats.h5 in the folder of the training data or
/// beside it, or from the training data, which are read once.
struct Normalisation {
  ChannelRanges ranges;
  std::string source;  ///< name of the file, or which data were read
};
/// Rank 0 reads a file of statistics, and the others receive the ranges. `left_out`: samples that are not read, sorted.
/// Collective.
Normalisation find_normalisation(const RunOptions& o, const SnapshotDataset& training,
                                 const std::vector<std::int64_t>& left_out, Communicator& world);

/// Ranges of chosen channels as text that gives the same numbers again: "1:2.5,-3:4".
std::string to_text(const ChannelRanges& ranges);
/// Throws InputError, naming `source`, for text that to_text() has not made.
ChannelRanges ranges_from_text(const std::string& text, const std::string& source);

/// The network for samples of this data set.
Graph make_network(const RunOptions& o, const SnapshotDataset& data);
/// The network for samples of this shape: (channels, rows, columns).
Graph make_network(const RunOptions& o, const Shape& sample);

/// Both means of the intersection over union; the first one judges the network.
std::vector<std::shared_ptr<Metric>> make_metrics(const RunOptions& o);

/// The optimizer of the options, with the LARC settings of the SC18 code.
std::shared_ptr<Optimizer> make_optimizer(const RunOptions& o);

/// The schedule of the options. Numbers of steps are converted to epochs.
Schedule make_schedule(const RunOptions& o, std::int64_t steps_per_epoch);

}  // namespace keelson::climate
