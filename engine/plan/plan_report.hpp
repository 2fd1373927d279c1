#pragma once

#include <iosfwd>

#include "engine/plan/compiled_graph.hpp"

namespace keelson {

std::vector<std::pair<std::string, std::size_t>> memory_of(const CompiledGraph& compiled);  ///< as Plan::memory()
std::vector<PlanRow> plan_rows(const Program& program);                                     ///< without milliseconds
std::vector<std::string> plan_reorders(const Program& program);
std::uint64_t plan_hash(const Program& program);
void print_plan(std::ostream& out, const Plan& plan, const CompiledGraph& compiled, const std::vector<PlanRow>& rows,
                const DevicePeaks* peaks);

}  // namespace keelson
