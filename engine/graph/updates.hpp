#pragma once

#include "engine/graph/node_builder.hpp"
#include "engine/optim/optimizer.hpp"

namespace keelson {

/// Appends the calls that move every parameter with a gradient; gives the parameters the optimizer's state. `gradients`
/// is the block that holds all of them.
void append_updates(CompileState& build, const Optimizer& optimizer, const Tensor& gradients);

}  // namespace keelson
