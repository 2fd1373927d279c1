#include "engine/plan/overlap_weight_gradients.hpp"

#include <algorithm>
#include <ranges>
#include <vector>

#include "engine/base/environment.hpp"
#include "engine/base/error.hpp"
#include "engine/base/printable.hpp"
#include "engine/tune/choice_cache.hpp"

namespace keelson {

OverlapMode overlap_mode() {
  const std::string requested = environment("KEELSON_OVERLAP");
  if (requested.empty()) return tuning_is_off() ? OverlapMode::off : OverlapMode::measure;
  if (requested == "on") return OverlapMode::on;
  if (requested == "off") return OverlapMode::off;
  if (requested == "measure") return OverlapMode::measure;
  refuse(
      "KEELSON_OVERLAP={}: expected 'on' (compute weight gradients beside data gradients), 'off', or 'measure' (the "
      "default: what is faster in the first steps)",
      printable(requested));
}

void overlap_weight_gradients(Program& program) {
  std::vector<bool> is_read(program.buffers().size());  // by root: a gradient of data is computed from it later
  const auto root = [&](const Operand& o) { return static_cast<std::size_t>(program.root(o.id)); };
  for (Call& call : program.calls() | std::views::reverse) {
    const Computation* c = call.computation();
    if (!c || call.phase != Phase::backward) continue;
    const bool is_awaited =
        c->verb == ops::Verb::backward_data || std::ranges::any_of(call.operands, [&](const Operand& o) {
          return o.writes() && o.access != ops::Access::scratch && is_read[root(o)];
        });
    if (is_awaited) {
      for (const Operand& o : call.operands)
        if (o.reads()) is_read[root(o)] = true;
    } else {
      call.overlaps = call.every.always() && c->primitive->can_be_captured(c->verb);
    }
  }
}

}  // namespace keelson
