#pragma once

#include <string>

#include "engine/plan/plan.hpp"

namespace keelson {

/// A message for a plan of these options that found no room (OutOfMemory). The message says how much memory a plan of
/// such a batch needs, in total and by purpose, how much the device can give, and which batch fits:
///
///   a batch of 8 needs 31.2 GiB (parameters 34.0 MiB, ..., activations 30.8 GiB), but 24.0 GiB are available
///   on NVIDIA H200; a batch of 6 fits
///
/// The needs are computed from plans of batches 1 and 2, since memory grows linearly with the batch. The plan that
/// found no room and its parameters must be gone.
std::string describe_memory_needs(const Graph& graph, Context& context, PlanOptions options);

/// Throws InputError if the parameters with their gradients and the optimizer's moments need more memory than the
/// device can give. Allocates none of them.
void require_memory_for_parameters(const Graph& graph, Context& context, const UpdateRule& optimizer);

}  // namespace keelson
