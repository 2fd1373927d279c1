#pragma once

#include "engine/plan/node_builder.hpp"

namespace keelson {

/// The pass for PlanOptions::inputs_as_read. If one reorder or conversion is the only call that reads an input, the
/// input gets the layout and dtype of that call's result, and the call is removed. Recurrent states stay as they are,
/// since the plan itself writes their next values.
void adopt_readers_descs(CompileState& build);

}  // namespace keelson
