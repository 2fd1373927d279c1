#pragma once

#include "engine/optim/optimizer.hpp"
#include "engine/plan/node_builder.hpp"

namespace keelson {

/// Appends the calls that move every parameter with a gradient. `gradients`: floats in the block that holds all whole
/// ones.
void append_updates(CompileState& build, const Optimizer& optimizer, std::int64_t gradients);

}  // namespace keelson
