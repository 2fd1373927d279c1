#pragma once

#include <string>

#include "engine/plan/plan.hpp"

namespace keelson {

/// For a plan of these options that found no room (OutOfMemory): what a plan of such a batch needs, by what for, what
/// the device can give, and a batch that fits, e.g.
///
///   a batch of 8 needs 31.2 GiB (parameters 34.0 MiB, ..., activations 30.8 GiB), but 24.0 GiB are available
///   on NVIDIA H200; a batch of 6 fits
///
/// Found by making plans of batches 1 and 2, which grow alike; nothing of the failed one may be alive.
std::string describe_memory_needs(const Graph& graph, Context& context, PlanOptions options);

/// Throws InputError if the parameters alone, their gradients and the optimizer's moments, are more than the device can
/// give: found without making any of them.
void require_memory_for_parameters(const Graph& graph, Context& context, const Optimizer& optimizer);

}  // namespace keelson
