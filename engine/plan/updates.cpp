#include "engine/plan/updates.hpp"

#include <algorithm>

#include "engine/ops/combine.hpp"
#include "engine/plan/collectives.hpp"
#include "engine/plan/update_builder.hpp"

namespace keelson {
namespace {

/// The sums over ranks of the gradients that the updates of the next step read.
std::vector<Call> exchange_starts(CompileState& build, const UpdateBuilder& builder, Wire wire) {
  std::vector<Call> starts;
  if (build.ranks(Distribution::batch) == 1) return starts;
  for (const UpdatedParameter& p : builder.parameters())
    starts.push_back(start_of(build, {Phase::update, p.name, ""},
                              {.dst = p.gradient, .wire = wire, .label = "lagged gradient of " + p.name}));
  return starts;
}

void keep_gradients(CompileState& build, UpdateBuilder& builder) {
  for (std::size_t i = 0; i < build.gradients.size(); ++i) {
    const BufferId from = build.gradients[i].second, to = builder.parameters()[i].gradient;
    std::shared_ptr<ops::Reorder> copy = builder.make(ops::ReorderDesc{builder.desc(from), builder.desc(to)});
    builder.call<ops::Reorder, ops::Reorder::Forward>(build.gradients[i].first, "copy", copy, {.src = from, .dst = to});
  }
}

/// A wait for parameters stands before the first call of the step that reads them.
void insert_waits(std::vector<Call>& calls, const Program& program, const Shards& shards,
                  const std::vector<Call>& starts) {
  for (std::size_t bucket = 0; bucket < starts.size(); ++bucket) {
    const auto reads = [&](const Call& call) {
      return call.computation() && std::ranges::any_of(call.operands, [&](const Operand& o) {
               return o.reads() && shards.is_in(program, o.id, bucket);
             });
    };
    Call wait = end_of(starts[bucket]);
    const auto first = std::ranges::find_if(calls, reads);
    wait.phase = first->phase;
    calls.insert(first, std::move(wait));
  }
}

/// Each bucket's parameters go to the other ranks when the last of this rank's updates is done.
void exchange_parameters(CompileState& build, const Shards& shards) {
  auto& calls = build.program.calls();
  const auto starts = shards.gathers(build);
  // Every rank starts the exchanges in the same order, also of buckets in which it updates nothing: behind the sums of
  // norms.
  auto at = std::ranges::find(calls, Phase::update, &Call::phase);
  for (auto call = at; call != calls.end(); ++call)
    if (call->communication()) at = call + 1;
  for (std::size_t bucket = 0; bucket < starts.size(); ++bucket) {
    const auto updates = [&](const Call& call) {
      return std::ranges::any_of(
          call.operands, [&](const Operand& o) { return o.writes() && shards.is_in(build.program, o.id, bucket); });
    };
    for (auto call = at; call != calls.end(); ++call)
      if (updates(*call)) at = call + 1;
    at = calls.insert(at, starts[bucket]) + 1;
  }
  insert_waits(calls, build.program, shards, starts);
}

}  // namespace

void append_updates(CompileState& build, const Graph& graph, const UpdateRule& optimizer, const Gradients& gradients,
                    Wire wire) {
  UpdateBuilder builder(build, graph, gradients, optimizer);
  auto& calls = build.program.calls();
  const auto starts = build.lag ? exchange_starts(build, builder, wire) : std::vector<Call>();
  for (const Call& start : starts) calls.push_back(end_of(start));
  if (build.checks_gradients) builder.check_gradients();
  optimizer.append_updates(builder);
  builder.finish();
  if (gradients.shards()) exchange_parameters(build, *gradients.shards());
  if (!build.lag) return;
  keep_gradients(build, builder);
  calls.insert(calls.end(), starts.begin(), starts.end());
}

}  // namespace keelson
