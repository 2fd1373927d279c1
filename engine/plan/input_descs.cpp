#include "engine/plan/input_descs.hpp"

#include <algorithm>

#include "engine/ops/combine.hpp"

namespace keelson {

void adopt_readers_descs(CompileState& build) {
  Program& program = build.program;
  auto& calls = program.calls();
  for (const Graph::Node& n : build.nodes) {
    if (!n.is_input() || n.is_state) continue;
    const BufferId input = build.inputs.at(n.name);
    const auto reads = [&](const Call& call) {
      return std::any_of(call.operands.begin(), call.operands.end(),
                         [&](const Operand& o) { return o.id != no_buffer && program.root(o.id) == input; });
    };
    if (std::count_if(calls.begin(), calls.end(), reads) != 1) continue;
    const auto reader = std::find_if(calls.begin(), calls.end(), reads);
    const Computation* work = reader->computation();
    if (!work || !dynamic_cast<const ops::Reorder*>(work->primitive.get())) continue;
    const auto written = std::find_if(reader->operands.begin(), reader->operands.end(),
                                      [](const Operand& o) { return o.role == ops::Role::dst; });
    Buffer& result = program.buffer(written->id);
    if (result.storage != Storage::arena || result.view_of != no_buffer) continue;
    program.buffer(input).desc = result.desc;
    program.buffer(input).bytes = result.bytes;
    result.view_of = input;
    result.storage = Storage::owned;
    calls.erase(reader);
  }
}

}  // namespace keelson
