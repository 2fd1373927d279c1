#pragma once

#include <iosfwd>

#include "engine/plan/compiled_graph.hpp"

/// The reports of Plan, made from a compiled graph.
namespace keelson {

/// As Plan::memory(), with Plan::in_flight().
std::vector<std::pair<std::string, std::size_t>> memory_of(const CompiledGraph& compiled, std::int64_t in_flight);
std::vector<Exchanged> exchanged_in(const CompiledGraph& compiled);  ///< as Plan::exchanged()
std::vector<PlanRow> plan_rows(const Program& program);              ///< as Plan::rows()
std::vector<std::string> plan_reorders(const Program& program);      ///< as Plan::reorders()
std::string op_name(const Call& call);                               ///< as PlanRow::op: "conv bwd data"
std::uint64_t plan_hash(const CompiledGraph& compiled);              ///< as Plan::hash()
/// As Plan::structure(), of a compilation whose program is complete.
std::uint64_t plan_structure(const CompileState& build, const std::vector<Graph::Node>& nodes, std::string_view bounds);
/// As Plan::print(). `compiled` is the compiled graph of `plan`; `peaks` may be null.
void print_plan(std::ostream& out, const Plan& plan, const CompiledGraph& compiled, const std::vector<PlanRow>& rows,
                const DevicePeaks* peaks);

}  // namespace keelson
