#pragma once

#include "engine/plan/node_builder.hpp"
#include "engine/plan/update_rule.hpp"

namespace keelson {

/// Appends the calls of the update: the check of the gradients, where the plan has one, and the optimizer's calls. In a
/// plan with PlanOptions::lag all of these read the gradients of the step before. Then come the copies of this step's
/// gradients, and the starts of their exchange, whose waits stand before the checks and updates of the next step.
/// `gradients`: f32 elements of the block that holds all whole gradients. `wire`: of the exchange with lag.
void append_updates(CompileState& build, const UpdateRule& optimizer, std::int64_t gradients, Wire wire);

}  // namespace keelson
