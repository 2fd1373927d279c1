#pragma once

#include <string>

#include "engine/plan/plan.hpp"

namespace keelson {

/// What --precision says: a precision by its name; "default": the 16-bit type that the device multiplies fastest
/// (Device::preferred_half), on CPUs fp32; "auto": fp32 or that type (on CPUs bf16), whichever makes a step with these
/// options faster on this machine. That is measured: a few steps each, on zeros, of the slowest rank, in memory that is
/// given back. Collective over options.grid; all ranks get the same answer. Throws InputError for other words.
Precision choose_precision(const std::string& word, const Graph& graph, Context& context, const PlanOptions& options);

}  // namespace keelson
