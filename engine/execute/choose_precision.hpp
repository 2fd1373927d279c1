#pragma once

#include <string>

#include "engine/plan/plan.hpp"

namespace keelson {

/// The precision for a word of --precision:
/// - the name of a precision.
/// - "default": the 16-bit type that the device multiplies fastest (Device::preferred_half); fp32 on CPUs.
/// - "auto": fp32 or that 16-bit type (bf16 on CPUs), whichever makes a step with these options faster on this machine.
///   The function measures a few steps of each on zeros, takes the time of the slowest rank, and gives the memory back.
///   The first rank keeps the answer, for these plans and numbers of ranks and threads, in a file beside that of the
///   device's other choices (Autotuner). With KEELSON_TUNE=off "auto" is "default".
///
/// Collective over options.grid. All ranks get the same answer. Throws InputError for other words.
Precision choose_precision(const std::string& word, const Graph& graph, Context& context, const PlanOptions& options);

}  // namespace keelson
