#pragma once

#include <string>

#include "engine/graph/plan.hpp"

namespace keelson {

/// What --precision says: "fp32" and "bf16" are PlanOptions::compute f32 and bf16; "auto" is whichever makes a step
/// with these options faster on this machine. That is measured: a few steps each, on zeros, of the slowest rank, in
/// memory that is given back. Collective over options.communicator; all ranks get the same answer. Throws InputError
/// for other words.
DType choose_precision(const std::string& precision, const Graph& graph, Context& context, const PlanOptions& options);

/// The words that it knows.
std::vector<std::string> precisions();
/// "fp32", "bf16".
std::string precision_name(DType compute);

}  // namespace keelson
