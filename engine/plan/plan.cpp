#include "engine/plan/plan.hpp"

#include <algorithm>

#include "engine/plan/compiled_graph.hpp"
#include "engine/plan/plan_report.hpp"

namespace keelson {

Plan::Plan(const Graph& graph, Parameters& parameters, const PlanOptions& options)
    : compiled_(std::make_unique<const CompiledGraph>(compile(graph, parameters, options))) {}
Plan::~Plan() = default;

const PlanOptions& Plan::options() const { return compiled_->options; }
Context& Plan::context() const { return compiled_->context; }

std::int64_t Plan::in_flight() const {
  const PlanOptions& o = options();
  if (!o.training || !o.has_stages()) return 1;
  const int later = o.grid->extent(ProcessGrid::Axis::stage) - o.grid->coordinate(ProcessGrid::Axis::stage);
  return std::min<std::int64_t>(micro_batches(), later);
}

std::vector<Pass> Plan::passes() const {
  const std::int64_t count = micro_batches(), ahead = in_flight() - 1;
  std::vector<Pass> passes;
  for (std::int64_t m = 0; m < count + ahead; ++m) {
    if (m < count) passes.push_back({m, false});
    if (options().training && m >= ahead) passes.push_back({m - ahead, true});
  }
  return passes;
}

bool Plan::checks_gradients() const { return compiled_->checks_gradients; }

std::vector<PlanRow> Plan::rows() const { return plan_rows(compiled_->program); }
std::vector<std::string> Plan::reorders() const { return plan_reorders(compiled_->program); }
std::vector<std::pair<std::string, std::size_t>> Plan::memory() const { return memory_of(*compiled_, in_flight()); }
std::vector<Exchanged> Plan::exchanged() const { return exchanged_in(*compiled_); }
std::size_t Plan::arena_bytes() const { return compiled_->program.arena_bytes(); }
std::size_t Plan::arena_lower_bound() const { return compiled_->program.lower_bound(); }
std::uint64_t Plan::hash() const { return plan_hash(*compiled_); }
std::uint64_t Plan::structure() const { return compiled_->structure; }

void Plan::print(std::ostream& out, const DevicePeaks* peaks, const std::vector<PlanRow>* rows) const {
  print_plan(out, *this, *compiled_, rows ? *rows : this->rows(), peaks);
}

}  // namespace keelson
