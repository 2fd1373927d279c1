#pragma once

#include "engine/optim/optimizer.hpp"
#include "engine/plan/node_builder.hpp"

namespace keelson {

/// Appends the calls of the update: the check of the gradients, where the plan has one, and the optimizer's calls.
/// `gradients`: f32 elements of the block that holds all whole gradients.
void append_updates(CompileState& build, const Optimizer& optimizer, std::int64_t gradients);

}  // namespace keelson
