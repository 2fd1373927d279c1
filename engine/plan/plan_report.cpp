#include "engine/plan/plan_report.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <ostream>
#include <set>

namespace keelson {

namespace {

const TensorDesc* written(const Program& program, const Call& call) {
  for (const Operand& o : call.operands)
    if (o.writes()) return &program.buffer(o.id).desc;
  return nullptr;
}

constexpr double mebi = 1024.0 * 1024.0;

/// For each call the bytes of gradients that no later computation writes.
std::vector<std::size_t> completed_gradients(const Program& program) {
  const auto& calls = program.calls();
  std::vector<std::size_t> bytes(calls.size());
  std::set<BufferId> seen;
  for (std::size_t i = calls.size(); i-- > 0;) {
    if (!calls[i].computation()) continue;
    for (const Operand& o : calls[i].operands) {
      if (!o.writes()) continue;
      const BufferId id = program.root(o.id);
      const Buffer& b = program.buffer(id);
      if (b.storage == Storage::gradients && seen.insert(id).second) bytes[i] += b.bytes;
    }
  }
  return bytes;
}

/// FNV-1a of texts.
struct TextHash {
  std::uint64_t value = 14695981039346656037ull;
  void add(std::string_view text) {
    for (const unsigned char c : text) value = (value ^ c) * prime;
    value = (value ^ 0xff) * prime;  // between two texts
  }
  static constexpr std::uint64_t prime = 1099511628211ull;
};

/// Bytes of inputs, which each micro-batch in flight has of its own.
std::size_t of_inputs(const CompiledGraph& compiled) {
  std::size_t bytes = 0;
  for (const auto& [name, buffer] : compiled.inputs) bytes += compiled.program.buffer(buffer).bytes;
  return bytes;
}

}  // namespace

std::vector<std::pair<std::string, std::size_t>> memory_of(const CompiledGraph& compiled, std::int64_t in_flight) {
  std::size_t bytes[static_cast<int>(Storage::gradients) + 1] = {};
  for (const Buffer& b : compiled.program.buffers())
    if (b.view_of == no_buffer) bytes[static_cast<int>(b.storage)] += b.bytes;
  const auto of = [&](Storage s) { return bytes[static_cast<int>(s)]; };
  // One block, and what MicroBatchSums takes.
  const auto micro_batches = static_cast<std::uint64_t>(compiled.options.micro_batches());
  const auto blocks = static_cast<std::size_t>(compiled.options.exchange.reproducible ? std::bit_width(micro_batches)
                                               : micro_batches > 1                    ? 2
                                                                                      : 1);
  const auto slots = static_cast<std::size_t>(in_flight);
  return {{"parameters", of(Storage::parameter)},
          {"optimizer state", of(Storage::moment)},
          {"gradients", static_cast<std::size_t>(compiled.gradient_floats) * sizeof(float) * blocks},
          {"inputs and states", of(Storage::owned) + (slots - 1) * of_inputs(compiled)},
          {"activations", slots * compiled.program.arena_bytes()}};
}

namespace {

std::string purpose_of(const Program& program, const CollectiveDesc::Kind kind, const CommunicationDesc& desc) {
  using Kind = CollectiveDesc::Kind;
  const auto storage = [&](BufferId b) { return program.buffer(program.root(b)).storage; };
  if (kind == Kind::send) return desc.purpose;
  if (kind == Kind::allgather) return storage(desc.dst) == Storage::parameter ? "parameters" : "gradients";
  return kind == Kind::reduce_scatter || storage(desc.dst) == Storage::gradients ? "gradients" : "sums";
}

}  // namespace

std::vector<Exchanged> exchanged_in(const CompiledGraph& compiled) {
  const Program& program = compiled.program;
  std::vector<Exchanged> all;
  for (const Call& c : program.calls()) {
    const Communication* k = c.communication();
    if (!k || k->step != Communication::Step::start || k->desc.kind == CollectiveDesc::Kind::receive) continue;
    const bool repeated = c.phase == Phase::forward || c.phase == Phase::backward;
    const std::int64_t times = repeated ? compiled.options.micro_batches() : 1;
    const std::string what = purpose_of(program, k->desc.kind, k->desc);
    auto found = std::ranges::find(all, what, &Exchanged::what);
    if (found == all.end()) found = all.insert(all.end(), {what});
    const BufferId given = k->desc.src != no_buffer ? k->desc.src : k->desc.dst;
    found->bytes += static_cast<double>(times) * static_cast<double>(program.buffer(given).bytes) /
                    static_cast<double>(c.every.period);
    found->messages += times;
  }
  return all;
}

double least_milliseconds(const std::vector<PlanRow>& rows, const DevicePeaks& peaks) {
  double sum = 0;
  for (const PlanRow& r : rows) sum += std::min(r.share(peaks), 1.0) * r.milliseconds_per_step();
  return sum;
}

std::string PlanRow::op_with_period() const { return period == 1 ? op : fmt::format("{}, every {} steps", op, period); }

std::string op_name(const Call& call) {
  const Computation* computed = call.computation();
  if (!computed || computed->verb == ops::Verb::forward) return call.op;
  return fmt::format("{} {}", call.op, computed->verb == ops::Verb::backward_data ? "bwd data" : "bwd weights");
}

std::vector<PlanRow> plan_rows(const Program& program) {
  std::vector<PlanRow> rows;
  const auto completed = completed_gradients(program);
  for (const Call& c : program.calls()) {
    const Computation* computed = c.computation();
    PlanRow r;
    r.phase = to_string(c.phase);
    r.node = c.node;
    r.op = op_name(c);
    r.period = c.every.period;
    if (computed) {
      r.backend = computed->primitive->backend_of(computed->verb);
      r.kernel = computed->primitive->name(computed->verb);
      const ops::Cost cost = computed->primitive->cost(computed->verb);
      r.relative_error = computed->primitive->relative_error(computed->verb);
      r.gflop = cost.flops * 1e-9;
      r.least_gflop = cost.least_flops() * 1e-9;
      r.megabytes = cost.bytes * 1e-6;
    }
    if (const Communication* k = c.communication();
        k && k->desc.kind == CollectiveDesc::Kind::send && k->step == Communication::Step::start)
      r.sent_megabytes = static_cast<double>(program.buffer(k->desc.src).bytes) * 1e-6;
    if (const TensorDesc* d = written(program, c)) r.layout = d->layout.describe(d->shape);
    r.gradient_bytes = completed[rows.size()];
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

std::uint64_t plan_hash(const CompiledGraph& compiled) {
  const Program& program = compiled.program;
  const bool updates_differ = !compiled.parameter_block.places.empty();
  TextHash h;
  for (const Call& c : program.calls()) {
    const Communication* exchange = c.communication();
    const bool waits = exchange && exchange->step == Communication::Step::wait;
    if (updates_differ && (c.phase == Phase::update || waits)) continue;
    h.add(c.node);
    h.add(c.op);
    if (!c.every.always()) h.add(fmt::format("every {} from {}", c.every.period, c.every.first));
    if (const Computation* k = c.computation()) h.add(k->primitive->name(k->verb));
    if (const Communication* k = c.communication())
      h.add(fmt::format("{} {}", ProcessGrid::to_string(k->desc.axes), k->desc.group));
    for (const Operand& o : c.operands)  // scratch memory may depend on the number of threads, which may differ
      if (o.id != no_buffer && o.role != ops::Role::scratch) h.add(to_string(program.buffer(o.id).desc));
  }
  return h.value;
}

std::uint64_t plan_structure(const CompileState& build, const std::vector<Graph::Node>& nodes,
                             std::string_view bounds) {
  TextHash h;
  h.add(bounds);
  for (const Graph::Node& n : nodes) {
    h.add(n.name);
    h.add(n.is_input() ? "input" : n.layer->kind());
    for (const int src : n.srcs) h.add(std::to_string(src));
    h.add(fmt::format("{} {}", to_string(n.shape.shape), to_string(n.shape.dtype)));
  }
  const Program& program = build.program;
  // Ranks that share channels have arrays of other sizes, which they do not add up.
  const bool parts = build.ranks(build.channel_axis) > 1;
  const auto differs = [&](Distribution::Axes axes) { return parts && !axes.contains(build.channel_axis); };
  for (const Buffer& b : program.buffers())  // gradients are added up as they lie in memory
    if (b.storage == Storage::gradients && b.view_of == no_buffer && (!parts || b.distribution.is_partial()))
      h.add(differs(b.distribution.partial_axes) ? b.name
                                                 : fmt::format("{} {} {} {}", b.name, to_string(b.desc),
                                                               to_string(b.distribution), parts ? 0 : b.offset));
  for (const Call& c : program.calls()) {
    const Communication* k = c.communication();
    if (!k || k->step == Communication::Step::wait || k->desc.point_to_point()) continue;
    const CommunicationDesc& d = k->desc;
    h.add(c.node);
    h.add(c.op);
    if (!c.every.always()) h.add(fmt::format("every {} from {}", c.every.period, c.every.first));
    h.add(fmt::format("{} {} {} {} {} {} {}", ProcessGrid::to_string(d.axes), d.group, d.peer, d.periodic,
                      static_cast<int>(d.wire), static_cast<int>(d.order), d.label));
    for (const Operand& o : c.operands)
      h.add(fmt::format("{} {}", differs(d.axes) ? 0 : program.buffer(o.id).bytes,
                        to_string(program.buffer(o.id).distribution)));
  }
  return h.value;
}

void print_plan(std::ostream& out, const Plan& plan, const CompiledGraph& compiled, const std::vector<PlanRow>& rows,
                const DevicePeaks* peaks) {
  std::size_t widths[5] = {5, 4, 2, 7, 6};
  for (const PlanRow& r : rows) {
    const std::string op = r.op_with_period();
    const std::string* cells[5] = {&r.phase, &r.node, &op, &r.backend, &r.kernel};
    for (int i = 0; i < 5; ++i) widths[i] = std::max(widths[i], cells[i]->size());
  }
  const auto line = [&](const PlanRow& r, const std::array<std::string, 6>& numbers) {
    out << fmt::format("{:<{}} {:<{}} {:<{}} {:<{}} {:<{}}", r.phase, widths[0], r.node, widths[1], r.op_with_period(),
                       widths[2], r.backend, widths[3], r.kernel, widths[4]);
    for (std::size_t i = 0; i < (peaks ? 6 : 5); ++i) out << fmt::format(" {:>9}", numbers[i]);
    out << "  " << r.layout << "\n";
  };
  const auto decimals = [](double value, int count, bool known = true) {
    return known ? fmt::format("{:.{}f}", value, count) : std::string("-");
  };
  line({"phase", "node", "op", "backend", "kernel", "layout"}, {"GFLOP", "MB", "error", "ms", "GFLOP/s", "of peak"});
  PlanRow total;
  for (const PlanRow& r : rows) {
    const bool timed = r.milliseconds > 0;
    const double share = peaks ? r.share(*peaks) : 0;
    line(r, {decimals(r.gflop, 3), decimals(r.megabytes, 2), decimals(r.relative_error, 1, r.relative_error != 1),
             decimals(r.milliseconds, 3, timed), decimals(r.gflop_per_second(), 1, timed && r.gflop > 0),
             share > 0 ? decimals(100 * share, 1) + " %" : "-"});
    const auto period = static_cast<double>(r.period);
    total.gflop += r.gflop / period;
    total.megabytes += r.megabytes / period;
    total.milliseconds += r.milliseconds_per_step();
  }
  const bool training = plan.options().training;
  out << fmt::format(
      "batch {}: {:.2f} GFLOP, {:.0f} MB{} a {}, {} reorders{}\n", plan.batch(), total.gflop, total.megabytes,
      total.milliseconds > 0 ? fmt::format(", {:.2f} ms ({:.1f} GFLOP/s)", total.milliseconds, total.gflop_per_second())
                             : "",
      training ? "step" : "forward pass", plan.reorders().size(),
      training ? fmt::format(", {} gradient buckets", compiled.buckets) : "");
  if (const double at_peak = peaks ? least_milliseconds(rows, *peaks) : 0; at_peak > 0)
    out << fmt::format("at the machine's peaks these calls would take {:.2f} ms: {:.1f} % of the time spent in them\n",
                       at_peak, 100 * at_peak / total.milliseconds);
  out << fmt::format("arena {:.1f} MiB (lower bound {:.1f}), parameters {:.1f} MiB\n", plan.arena_bytes() / mebi,
                     plan.arena_lower_bound() / mebi, memory_of(compiled, 1)[0].second / mebi);
}

}  // namespace keelson
