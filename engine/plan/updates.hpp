#pragma once

#include "engine/plan/gradients.hpp"
#include "engine/plan/update_rule.hpp"

namespace keelson {

/// Appends the calls of the update: the check of the gradients, if the plan has one, and the optimizer's calls. In a
/// plan with PlanOptions::lag all of these read the gradients of the step before. Then come the copies of this step's
/// gradients, and the starts of their exchange, whose waits stand before the checks and updates of the next step.
/// `graph`: before fusion. `wire`: of the exchange with lag. If each rank updates its shards, the starts of the
/// exchange of the parameters follow, each behind the last update of its bucket; the waits stand in the phase forward,
/// before the first call that reads a parameter of the bucket.
void append_updates(CompileState& build, const Graph& graph, const UpdateRule& optimizer, const Gradients& gradients,
                    Wire wire);

}  // namespace keelson
