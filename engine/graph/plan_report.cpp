#include "engine/graph/plan_report.hpp"

#include <algorithm>
#include <ostream>

namespace keelson {

namespace {

const TensorDesc* written(const Program& program, const Call& call) {
  for (const Operand& o : call.operands)
    if (o.write && o.id != no_buffer) return &program.buffer(o.id).desc;
  return nullptr;
}

double median(std::vector<float> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

constexpr double mebi = 1024.0 * 1024.0;

}  // namespace

std::vector<PlanRow> plan_rows(const Program& program) {
  std::vector<PlanRow> rows;
  for (const Call& c : program.calls()) {
    PlanRow r;
    r.phase = to_string(c.phase);
    r.node = c.node;
    r.op = c.verb == ops::Verb::forward
               ? c.op
               : fmt::format("{} {}", c.op, c.verb == ops::Verb::backward_data ? "bwd data" : "bwd weights");
    if (c.primitive) {
      r.backend = c.primitive->backend();
      r.kernel = c.primitive->name(c.verb);
      const ops::Cost cost = c.primitive->cost(c.verb);
      r.gflop = cost.flops * 1e-9;
      r.megabytes = cost.bytes * 1e-6;
    }
    if (const TensorDesc* d = written(program, c)) r.layout = d->layout.describe(d->shape);
    r.milliseconds = median(c.milliseconds);
    rows.push_back(std::move(r));
  }
  return rows;
}

std::vector<std::string> plan_reorders(const Program& program) {
  std::vector<std::string> lines;
  for (const Call& c : program.calls()) {
    if (c.op != "reorder") continue;
    const Buffer &from = program.buffer(c.operands[0].id), &to = program.buffer(c.operands[1].id);
    lines.push_back(fmt::format("{}: {} -> {}", from.name, from.desc.layout.describe(from.desc.shape),
                                to.desc.layout.describe(to.desc.shape)));
  }
  return lines;
}

std::uint64_t plan_hash(const Program& program) {
  std::uint64_t h = 14695981039346656037ull;  // FNV-1a
  const auto mix = [&](std::string_view text) {
    for (unsigned char c : text) h = (h ^ c) * 1099511628211ull;
    h = (h ^ 0xff) * 1099511628211ull;
  };
  for (const Call& c : program.calls()) {
    mix(c.node);
    mix(c.op);
    if (c.primitive) mix(c.primitive->name(c.verb));
    for (const Operand& o : c.operands)
      if (o.id != no_buffer) mix(to_string(program.buffer(o.id).desc));
  }
  return h;
}

void print_plan(std::ostream& out, const Plan& plan, const Parameters& parameters, std::size_t buckets) {
  const auto rows = plan.rows();
  std::size_t widths[5] = {5, 4, 2, 7, 6};
  for (const PlanRow& r : rows) {
    const std::string* cells[5] = {&r.phase, &r.node, &r.op, &r.backend, &r.kernel};
    for (int i = 0; i < 5; ++i) widths[i] = std::max(widths[i], cells[i]->size());
  }
  const auto line = [&](const PlanRow& r, const std::string& gflop, const std::string& mb, const std::string& ms) {
    out << fmt::format("{:<{}} {:<{}} {:<{}} {:<{}} {:<{}} {:>9} {:>9} {:>9}  {}\n", r.phase, widths[0], r.node,
                       widths[1], r.op, widths[2], r.backend, widths[3], r.kernel, widths[4], gflop, mb, ms, r.layout);
  };
  line({"phase", "node", "op", "backend", "kernel", "layout", 0, 0, 0}, "GFLOP", "MB", "ms");
  PlanRow total;
  for (const PlanRow& r : rows) {
    line(r, fmt::format("{:.3f}", r.gflop), fmt::format("{:.2f}", r.megabytes),
         r.milliseconds > 0 ? fmt::format("{:.3f}", r.milliseconds) : "-");
    total.gflop += r.gflop;
    total.megabytes += r.megabytes;
    total.milliseconds += r.milliseconds;
  }
  out << fmt::format("batch {}: {:.2f} GFLOP, {:.0f} MB{} a step, {} reorders, {} gradient buckets\n", plan.batch(),
                     total.gflop, total.megabytes,
                     total.milliseconds > 0 ? fmt::format(", {:.2f} ms", total.milliseconds) : "",
                     plan.reorders().size(), buckets);
  out << fmt::format("arena {:.1f} MiB (lower bound {:.1f}), parameters {:.1f} MiB\n", plan.arena_bytes() / mebi,
                     plan.arena_lower_bound() / mebi, parameters.count() * sizeof(float) / mebi);
}

}  // namespace keelson
