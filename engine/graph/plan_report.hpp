#pragma once

#include <iosfwd>

#include "engine/graph/node_builder.hpp"
#include "engine/graph/plan.hpp"

namespace keelson {

/// Bytes by what for, as Plan::memory(). `gradients`: the block of all whole ones.
std::vector<std::pair<std::string, std::size_t>> memory_of(const CompileState& build, const Tensor& gradients);
std::vector<PlanRow> plan_rows(const Program& program, const std::vector<BoundCall>& bound);
std::vector<std::string> plan_reorders(const Program& program);
std::uint64_t plan_hash(const Program& program);
void print_plan(std::ostream& out, const Plan& plan, const Parameters& parameters, std::size_t buckets,
                const DevicePeaks* peaks);

}  // namespace keelson
