#pragma once

#include <iosfwd>

#include "engine/graph/plan.hpp"
#include "engine/graph/program.hpp"

namespace keelson {

std::vector<PlanRow> plan_rows(const Program& program);
std::vector<std::string> plan_reorders(const Program& program);
std::uint64_t plan_hash(const Program& program);
void print_plan(std::ostream& out, const Plan& plan, const Parameters& parameters, std::size_t buckets,
                const DevicePeaks* peaks);

}  // namespace keelson
