#pragma once

#include <nlohmann/json_fwd.hpp>

#include "apps/bench/networks.hpp"
#include "engine/execute/executor.hpp"

/// Whole training steps, or forward passes alone, on made-up data, for the subcommands that time them.
namespace keelson::bench {

/// Fills the inputs of an executor of this network: numbers like the logarithms of counts (zeros alone would be too
/// easy for the caches), and classes with equal probability.
void fill_inputs(Context& context, const Network& net, const Executor& executor);

/// The parameters of the first step; the ranks along the axis data of the plan's grid share the samples.
ops::StepParams first_step(const Executor& executor);

/// Mean seconds of a step over `count` steps in sequence, as in training, with one wait for the device at the end. For
/// a plan without training, a step is a forward pass. All ranks get the time of the slowest rank. Advances `step`.
/// Collective.
double time_steps(int count, Executor& executor, Communicator& world, Device& device, ops::StepParams& step);

/// 10^9 FLOP that this rank executes in a step.
double gflop_of_step(const Executor& executor);

/// One call of a step with its work, its time, and its share of `peaks`.
nlohmann::json row_json(const PlanRow& row, const DevicePeaks& peaks);

}  // namespace keelson::bench
