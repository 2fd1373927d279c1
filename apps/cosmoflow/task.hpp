#pragma once

#include <map>
#include <memory>
#include <string>

#include "apps/common/evaluation.hpp"
#include "apps/cosmoflow/data/universe_dataset.hpp"
#include "apps/cosmoflow/run_options.hpp"
#include "engine/base/communicator.hpp"
#include "engine/graph/graph.hpp"
#include "engine/train/checkpoint/checkpoint_reader.hpp"
#include "engine/train/metrics/target_metric.hpp"

namespace keelson::cosmoflow {

/// How the files under `path` are read for the network of `o`: sub-cubes, channels, normalisation and targets. The
/// paper's network gets one channel, redshift 0, and the z-scores of the first three parameters: with the mean and
/// deviation of the uniform prior whose ranges the files record. Throws InputError for data that cannot be used.
/// Collective.
std::unique_ptr<UniverseDataset> open_data(const RunOptions& o, const std::string& path, Communicator& world);

/// The ranges of the targets as text, for a checkpoint: "omega_m 0.2 0.4, sigma_8 0.6 1". Empty: the files have none.
std::string ranges_of(const UniverseDataset& data);

/// Throws InputError, naming the first target that differs, for data whose files give the targets other ranges than
/// `expected`, which is of `source`, or none: errors in physical units, and the paper's targets, would be of another
/// scale. An empty `expected` is compared with nothing.
void require_ranges(const UniverseDataset& data, const std::string& expected, const std::string& source);
/// The same with the ranges of the data that the checkpoint's run was trained on: its configuration's `ranges_key`.
void require_ranges(const UniverseDataset& data, const CheckpointReader& checkpoint);
inline constexpr const char* ranges_key = "parameter-ranges";

/// Reads all samples once, spread over the ranks, if the files hold floating-point voxels, which may be NaN or infinite
/// (counts cannot; targets are checked when files are opened). Throws InputError on all ranks, naming a file.
/// Collective.
void check_finite(const UniverseDataset& data, Communicator& world);

/// The network for samples of this data set.
Graph make_network(const RunOptions& o, const UniverseDataset& data);
/// The network for samples of this shape: (channels, edge, edge, edge). `widths`: of the layers, by name; the number of
/// targets is that of the last one.
Graph make_network(const RunOptions& o, const Shape& sample, const std::map<std::string, std::int64_t>& widths);
std::string normalisation_name(const RunOptions& o);  ///< of voxels: "log1p", "mean", "none"
std::string network_name(const RunOptions& o);        ///< "cosmoflow-mlperf"
inline constexpr app::NetworkFamily family{"cosmoflow-", "CosmoFlow"};

/// MAE in the units of y (mlperf), or mean |delta| / true in physical units (paper).
std::shared_ptr<TargetMetric> make_metric(const RunOptions& o, const UniverseDataset& data);

/// As the options say, with --l2 and what the paper's code has for LARC.
std::shared_ptr<Optimizer> make_optimizer(const RunOptions& o);

}  // namespace keelson::cosmoflow
