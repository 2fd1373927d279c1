#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/plan.hpp"

namespace keelson {

/// Chooses the layers with which stages begin (PlanOptions::stage_starts), so that the slowest stage is as fast as
/// possible. Each rank of `world` trains the whole network on zeros for a few passes of one micro-batch, all at the
/// same time as in a training. A node's time is the mean over the ranks of its forward and backward passes, as often as
/// a step has them, and of its update. The first rank keeps the answer in a file beside that of the device's other
/// choices (Autotuner), for this network, stages, micro-batches, precision and number of threads.
///
/// With KEELSON_TUNE=off, and where the whole network has no room on a rank, the answer is that of estimates from
/// shapes (estimated_stage_starts()); with one stage it is empty.
///
/// `options`: of the training plan; `grid` is not read. All memory is given back. The same answer on all ranks. Throws
/// InputError for more stages than nodes that compute. Collective.
std::vector<std::string> choose_stage_starts(const Graph& graph, Context& context, Communicator& world, int stages,
                                             const PlanOptions& options);

/// The number of micro-batches of a replica with so many samples and stages, if the caller asks for none: the largest
/// divisor of `samples` of at most 4 for each stage; 1 without stages.
std::int64_t default_micro_batches(std::int64_t samples, int stages);

}  // namespace keelson
