#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/process_grid.hpp"
#include "engine/plan/plan.hpp"

namespace keelson {

/// A process grid on which a network could be trained, and what is known of it. The values are the same on all ranks.
struct GridCandidate {
  ProcessGrid::Extents extents;  ///< data, and at most one of space, channel and stage
  std::int64_t batch = 0;        ///< samples per step and replica
  /// Passes of a step (PlanOptions::micro_batch_count): as asked for; more where only that fits the memory; on stages,
  /// if one was asked for, default_micro_batches().
  std::int64_t micro_batches = 1;
  std::string refusal = {};  ///< why the grid is not possible; empty: it is possible
  double bytes = 0;          ///< Plan::memory() of the rank that needs most
  double estimated = 0;      ///< seconds of a step; 0: nothing was measured that an estimate could use
  double measured = 0;       ///< seconds of a step on the slowest rank, median; 0: not measured
  std::string name() const;  ///< "data 2 x space 2"
};

/// The grids that choose_grid() has looked at, and its answer.
struct GridChoice {
  std::vector<GridCandidate> candidates;  ///< those with the fewest parts first
  std::size_t chosen = 0;                 ///< index of the answer
  std::string reason = {};                ///< why: "measured", "kept from an earlier start in FILE"
  const GridCandidate& grid() const { return candidates[chosen]; }  ///< the answer
};

/// How choose_grid() chooses.
struct GridChoiceOptions {
  bool measure_all = false;  ///< measures every possible grid now, whatever is known from earlier starts
};

/// Chooses the process grid on which the ranks of `world` train this network fastest with `global_batch` samples a
/// step: data alone, or data with parts of samples (space), parts of channels, or stages.
///
/// 1. Every number of parts that divides the number of ranks is looked at, along each of these axes. A grid is refused
///    if the samples cannot be shared out among its replicas, if the network cannot be cut into as many parts, if the
///    other options need whole samples or whole parameters (a `world` that survives losses does, too), or if a plan
///    needs more memory than the device has, also with a micro-batch for each sample.
/// 2. The possible grid with the fewest parts is measured, call by call. The times of the others are estimated from it:
///    the time of each layer grows and shrinks with its work (FLOPs and bytes of the grid's own plan, on the rank that
///    has most), messages cost a latency and a time per byte, which are measured between neighbours, and the sum of the
///    gradients costs the same on every grid. K stages with M micro-batches take M + K - 1 passes of the slowest stage.
/// 3. At most 4 grids, whose estimates are within 1.5 times the best one, are measured: a few steps each on zeros. The
///    fastest one is chosen; within 3 % the one with the fewest parts.
///
/// The first rank keeps the answer in a file beside that of the device's other choices (Autotuner), for this network,
/// global batch, precision, and numbers of ranks, nodes and threads. With KEELSON_TUNE=off the possible grid with the
/// fewest parts is chosen.
///
/// `options`: of the training plan; `batch` and `grid` are not read. All memory is given back. The same answer on all
/// ranks. Throws InputError where no grid is possible, naming the refusals. Collective.
GridChoice choose_grid(const Graph& graph, Context& context, Communicator& world, std::int64_t global_batch,
                       const PlanOptions& options, const GridChoiceOptions& how = {});

/// The grid with the fewest parts whose replicas can share out `global_batch` samples: what is known before there are
/// network and device. Throws InputError where there is none.
ProcessGrid::Extents fewest_parts(int ranks, std::int64_t global_batch);

}  // namespace keelson
