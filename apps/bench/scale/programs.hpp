#pragma once

#include <vector>

#include "apps/bench/scale/profile.hpp"
#include "apps/bench/scale/replay_job.hpp"
#include "apps/bench/scale/scale_grid.hpp"

namespace keelson::bench {

/// The programs of the ranks of one replica on a grid (ReplayJob::programs).
///
/// A node's calls take the rank's share of its rows (StepProfile::Call::on_part), or of its channels
/// (channel_layers()), unless ExchangeSettings::copies: the published program cuts rows alone. The update takes the
/// time of the parameters that the rank holds, and their gradients are summed over all ranks of a stage. Before a
/// node's calls, rows of its sources come from other ranks along space; behind its backward calls the gradients of
/// these rows go back and are added. As in training, these gradients travel beside those of the node's parameters,
/// unless ExchangeSettings::copies, and the rank waits for all other rows; with ExchangeSettings::hide_rows they travel
/// beside the part of the work that reads the rank's own rows.
///
/// Stages are cut where the longest of them is shortest. Values that are made before a cut and read behind it go from
/// stage to stage, and their gradients back. Each stage works in the order of 1F1B with flush (Narayanan et al., SOSP
/// 2019): stage p of K computes min(M, K - p - 1) forward passes of the M micro-batches, then one forward and one
/// backward pass in turn, then the other backward passes, and then exchanges gradients. Receives of other stages are
/// posted at the beginning of a step.
///
/// Throws InputError for grids that the network or the number of samples does not permit.
std::vector<RankProgram> grid_programs(const StepProfile& profile, const ScaleGrid& grid, const Machine& machine,
                                       const ExchangeSettings& exchange);

/// The number of micro-batches of a grid: as given, or by default. Throws InputError where it does not divide the
/// samples of a replica.
int micro_batches_of(const StepProfile& profile, const ScaleGrid& grid);

}  // namespace keelson::bench
