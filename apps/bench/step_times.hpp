#pragma once

#include <nlohmann/json_fwd.hpp>

#include "apps/bench/networks.hpp"
#include "engine/execute/executor.hpp"

/// Whole training steps, or forward passes alone, on made-up data, for the verbs that time them.
namespace keelson::bench {

/// Gives an executor of this network inputs to work on: numbers like the logarithms of counts (zeros alone would spare
/// the caches), and classes each with the same chance.
void fill_inputs(Context& context, const Network& net, const Executor& executor);

/// The values of the first step of ranks that share the samples.
ops::StepParams first_step(const Executor& executor, const Communicator& world);

/// Seconds of one step, of `count` that follow each other as in training: the device is waited for at their end. A step
/// of a plan without training is a forward pass. The
/// slowest rank's, on all ranks. `step` counts on. Collective.
double time_steps(int count, Executor& executor, Communicator& world, Device& device, ops::StepParams& step);

/// 10^9 FLOP that this rank executes in a step.
double gflop_of_step(const Executor& executor);

/// One call of a step with its work, its time, and its share of these peaks.
nlohmann::json row_json(const PlanRow& row, const DevicePeaks& peaks);

}  // namespace keelson::bench
