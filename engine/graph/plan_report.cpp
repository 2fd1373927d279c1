#include "engine/graph/plan_report.hpp"

#include <algorithm>
#include <array>
#include <ostream>

namespace keelson {

namespace {

const TensorDesc* written(const Program& program, const Call& call) {
  for (const Operand& o : call.operands)
    if (o.writes()) return &program.buffer(o.id).desc;
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

std::vector<std::pair<std::string, std::size_t>> memory_of(const CompileState& build, const Tensor& gradients) {
  std::size_t parameters = 0, moments = 0, others = 0;
  const auto add = [](std::size_t& sum, const Tensor& t) { sum += t ? t.bytes() : 0; };
  for (const Parameter& p : build.parameters.all()) {
    add(parameters, p.value);
    for (const Tensor& m : p.moments) add(moments, m);
  }
  for (const Buffer& b : build.program.buffers()) add(others, b.external);
  // Parameters, moments and gradients are buffers of the program, too; the block of gradients one as a whole at most.
  const auto block = gradients ? gradients.bytes() : 0;
  std::size_t known = parameters + moments;
  for (const auto& [name, buffer] : build.gradients) known += build.program.buffer(buffer).bytes;
  for (const Buffer& b : build.program.buffers()) known += b.external && b.name == "gradients" ? block : 0;
  return {{"parameters", parameters},
          {"optimizer state", moments},
          {"gradients", block},
          {"inputs and states", others > known ? others - known : 0},
          {"activations", build.program.arena_bytes()}};
}

std::vector<PlanRow> plan_rows(const Program& program, const std::vector<BoundCall>& bound) {
  std::vector<PlanRow> rows;
  for (std::size_t i = 0; i < bound.size(); ++i) {
    const Call& c = program.calls()[i];
    const Computation* computed = c.computation();
    const ops::Verb verb = computed ? computed->verb : ops::Verb::forward;
    PlanRow r;
    r.phase = to_string(c.phase);
    r.node = c.node;
    r.op = verb == ops::Verb::forward
               ? c.op
               : fmt::format("{} {}", c.op, verb == ops::Verb::backward_data ? "bwd data" : "bwd weights");
    if (computed) {
      r.backend = computed->primitive->backend();
      r.kernel = computed->primitive->name(verb);
      const ops::Cost cost = computed->primitive->cost(verb);
      r.gflop = cost.flops * 1e-9;
      r.megabytes = cost.bytes * 1e-6;
    }
    if (const TensorDesc* d = written(program, c)) r.layout = d->layout.describe(d->shape);
    r.milliseconds = median(bound[i].milliseconds);
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
    if (const Computation* k = c.computation()) mix(k->primitive->name(k->verb));
    for (const Operand& o : c.operands)
      if (o.id != no_buffer) mix(to_string(program.buffer(o.id).desc));
  }
  return h;
}

void print_plan(std::ostream& out, const Plan& plan, const Parameters& parameters, std::size_t buckets,
                const DevicePeaks* peaks) {
  const auto rows = plan.rows();
  std::size_t widths[5] = {5, 4, 2, 7, 6};
  for (const PlanRow& r : rows) {
    const std::string* cells[5] = {&r.phase, &r.node, &r.op, &r.backend, &r.kernel};
    for (int i = 0; i < 5; ++i) widths[i] = std::max(widths[i], cells[i]->size());
  }
  const auto line = [&](const PlanRow& r, const std::array<std::string, 5>& numbers) {
    out << fmt::format("{:<{}} {:<{}} {:<{}} {:<{}} {:<{}}", r.phase, widths[0], r.node, widths[1], r.op, widths[2],
                       r.backend, widths[3], r.kernel, widths[4]);
    for (std::size_t i = 0; i < (peaks ? 5 : 4); ++i) out << fmt::format(" {:>9}", numbers[i]);
    out << "  " << r.layout << "\n";
  };
  const auto decimals = [](double value, int count, bool known = true) {
    return known ? fmt::format("{:.{}f}", value, count) : std::string("-");
  };
  line({"phase", "node", "op", "backend", "kernel", "layout"}, {"GFLOP", "MB", "ms", "GFLOP/s", "of peak"});
  PlanRow total;
  double at_peak = 0;  // milliseconds that the machine's limits explain; what caches spared cannot make up for others
  for (const PlanRow& r : rows) {
    const bool timed = r.milliseconds > 0;
    const double share = peaks ? r.share(*peaks) : 0;
    line(r,
         {decimals(r.gflop, 3), decimals(r.megabytes, 2), decimals(r.milliseconds, 3, timed),
          decimals(r.gflop_per_second(), 1, timed && r.gflop > 0), share > 0 ? decimals(100 * share, 1) + " %" : "-"});
    total.gflop += r.gflop;
    total.megabytes += r.megabytes;
    total.milliseconds += r.milliseconds;
    at_peak += std::min(share, 1.0) * r.milliseconds;
  }
  out << fmt::format("batch {}: {:.2f} GFLOP, {:.0f} MB{} a step, {} reorders, {} gradient buckets\n", plan.batch(),
                     total.gflop, total.megabytes,
                     total.milliseconds > 0
                         ? fmt::format(", {:.2f} ms ({:.1f} GFLOP/s)", total.milliseconds, total.gflop_per_second())
                         : "",
                     plan.reorders().size(), buckets);
  if (at_peak > 0)
    out << fmt::format("at the machine's peaks these calls would take {:.2f} ms: {:.1f} % of the time spent in them\n",
                       at_peak, 100 * at_peak / total.milliseconds);
  out << fmt::format("arena {:.1f} MiB (lower bound {:.1f}), parameters {:.1f} MiB\n", plan.arena_bytes() / mebi,
                     plan.arena_lower_bound() / mebi, parameters.count() * sizeof(float) / mebi);
}

}  // namespace keelson
