#pragma once

#include <cstdint>
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

/// Opens the files under `path` for the network of `o`, with its sub-cubes, channels, normalisation and targets. The
/// paper's network gets one channel, redshift 0, and the z-scores of the first three parameters. Their mean and
/// deviation are those of the uniform prior whose ranges the files record. Throws InputError for data that cannot be
/// used; up to `skip_broken` files are left out instead. `copies`: of the files. Collective.
std::unique_ptr<UniverseDataset> open_data(const RunOptions& o, const std::string& path, Communicator& world,
                                           std::int64_t skip_broken = 0,
                                           std::shared_ptr<const FileCopies> copies = nullptr);

/// The ranges of the targets as text, for a checkpoint: "omega_m 0.2 0.4, sigma_8 0.6 1". Empty: the files have no
/// ranges.
std::string ranges_of(const UniverseDataset& data);

/// Throws InputError, naming the first target that differs, if the files of `data` have other ranges of the targets
/// than `expected` (those of `source`), or none. With other ranges, errors in physical units and the paper's targets
/// would have another scale. An empty `expected` is not compared.
void require_ranges(const UniverseDataset& data, const std::string& expected, const std::string& source);
/// The same with the ranges of the checkpoint's training data, which its configuration has as `ranges_key`.
void require_ranges(const UniverseDataset& data, const CheckpointReader& checkpoint);
inline constexpr const char* ranges_key = "parameter-ranges";

/// If the files hold floating-point voxels, which may be NaN or infinite, reads all samples once to check them; the
/// ranks share the samples. (Counts need no check; targets are checked when files are opened.) Throws InputError on all
/// ranks, naming a file. Collective.
void check_finite(const UniverseDataset& data, Communicator& world);

/// The network for samples of this data set.
Graph make_network(const RunOptions& o, const UniverseDataset& data);
/// The network for samples of this shape, (channels, edge, edge, edge), with this number of targets.
Graph make_network(const RunOptions& o, const Shape& sample, std::int64_t targets);
std::string normalisation_name(const RunOptions& o);  ///< "log1p", "mean" or "none"
std::string network_name(const RunOptions& o);        ///< "cosmoflow-mlperf"
inline constexpr app::NetworkFamily family{"cosmoflow-", "CosmoFlow"};

/// MAE in the units of y (mlperf), or mean |delta| / true in physical units (paper).
std::shared_ptr<TargetMetric> make_metric(const RunOptions& o, const UniverseDataset& data);

/// The optimizer of the options, with --l2 and the LARC floor of the paper's code.
std::shared_ptr<Optimizer> make_optimizer(const RunOptions& o);

}  // namespace keelson::cosmoflow
