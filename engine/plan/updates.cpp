#include "engine/plan/updates.hpp"

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

}  // namespace

void append_updates(CompileState& build, const UpdateRule& optimizer, std::int64_t gradients, Wire wire) {
  UpdateBuilder builder(build, gradients, optimizer.state_names());
  auto& calls = build.program.calls();
  const auto starts = build.lag ? exchange_starts(build, builder, wire) : std::vector<Call>();
  for (const Call& start : starts) calls.push_back(end_of(start));
  if (build.checks_gradients) builder.check_gradients();
  optimizer.append_updates(builder);
  if (!build.lag) return;
  keep_gradients(build, builder);
  calls.insert(calls.end(), starts.begin(), starts.end());
}

}  // namespace keelson
