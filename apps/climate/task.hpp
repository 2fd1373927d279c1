#pragma once

#include <memory>
#include <string>

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
std::string network_title(const RunOptions& o);  ///< for people: "Tiramisu"

/// Of what the extents of the grid have to be multiples.
std::int64_t grid_multiple(const RunOptions& o);

/// The snapshots under `path`, for the network of `o`, in SI units. Throws InputError for data that cannot be used.
/// Collective.
SnapshotDataset open_snapshots(const RunOptions& o, const std::string& path, Communicator& world);

/// By what channels are normalised: --stats, or stats.h5 in the folder of the training data or beside it, or the
/// training data, which are read once.
struct Normalisation {
  ChannelRanges ranges;
  std::string source;  ///< a file, or what was read
};
/// Collective.
Normalisation find_normalisation(const RunOptions& o, const SnapshotDataset& training, Communicator& world);

/// Ranges of chosen channels as text that gives the same numbers again: "1:2.5,-3:4".
std::string to_text(const ChannelRanges& ranges);
/// Throws InputError, naming `source`, for text that to_text() has not made.
ChannelRanges ranges_from_text(const std::string& text, const std::string& source);

/// The network for samples of this data set.
Graph make_network(const RunOptions& o, const SnapshotDataset& data);
/// The network for samples of this shape: (channels, rows, columns).
Graph make_network(const RunOptions& o, const Shape& sample);

/// Both means of the intersection over union, first the one that judges.
std::vector<std::shared_ptr<Metric>> make_metrics(const RunOptions& o);

/// As the options say, with what the SC18 code has for LARC.
std::shared_ptr<Optimizer> make_optimizer(const RunOptions& o);

/// As the options say; what they count in steps is turned into epochs of so many steps.
Schedule make_schedule(const RunOptions& o, std::int64_t steps_per_epoch);

}  // namespace keelson::climate
