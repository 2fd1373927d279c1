#include "engine/plan/collectives.hpp"

#include <algorithm>

namespace keelson {

namespace {

using ops::Access;
using ops::Role;
using Kind = CollectiveDesc::Kind;

std::string_view name_of(Kind kind) {
  constexpr std::string_view names[] = {"allreduce", "reduce-scatter", "allgather", "all-to-all",
                                        "broadcast", "send",           "receive"};
  return names[static_cast<int>(kind)];
}

/// Whether the bytes of src and dst fit each other, with `ranks` ranks.
bool sizes_fit(Kind kind, std::size_t src, std::size_t dst, std::size_t ranks) {
  switch (kind) {
    case Kind::allgather:
      return dst == src * ranks;
    case Kind::reduce_scatter:
      return src == dst * ranks;
    case Kind::all_to_all:
      return src == dst && src % ranks == 0;
    default:
      return true;
  }
}

std::vector<Operand> operands_of(const CommunicationDesc& desc) {
  switch (desc.kind) {
    case Kind::allreduce:
    case Kind::broadcast:
      return {{desc.dst, Role::dst, Access::update}};
    case Kind::send:
      return {{desc.src, Role::src, Access::read}};
    case Kind::receive:
      return {{desc.dst, Role::dst, Access::write}};
    default:
      return {{desc.src, Role::src, Access::read}, {desc.dst, Role::dst, Access::write}};
  }
}

/// A collective to be inserted. Call numbers are those of the program without the insertions.
struct Insertion {
  Call start;
  int last_writer = -1, first_reader = -1;  ///< -1: none in the phases forward and backward
  int wait_behind = -1;                     ///< the wait stands behind this call; -1: before first_reader
};

bool is_linear(const Call& call) { return call.computation() && call.computation()->primitive->is_linear(); }

/// Finds which calls write and read the partial values of a program, and inserts the collectives.
class Inserter {
 public:
  explicit Inserter(CompileState& build)
      : build_(build),
        program_(build.program),
        calls_(program_.calls()),
        users_(program_.buffers().size()),
        ends_{end_of_phase(Phase::forward), end_of_phase(Phase::backward), end_of_phase(Phase::exchange)} {
    for (std::size_t c = 0; c < calls_.size(); ++c) note_users(static_cast<int>(c));
  }

  void add_buckets(const std::vector<Bucket>& buckets);
  void add_partial_values();
  void add_gathers(const std::vector<Call>& gathers) {
    for (const Call& start : gathers) insertions_.push_back({start, users(start.operands[0].id).last_writer, -1});
  }
  PhaseEnds insert();

 private:
  /// The calls that use a buffer, or a view of it.
  struct Users {
    int last_writer = -1;
    int first_reader = -1;  ///< that reads the whole value, and not only this rank's term
    bool in_bucket = false;
  };
  std::size_t end_of_phase(Phase last) const {
    const auto after = [&](const Call& c) { return c.phase > last; };
    return static_cast<std::size_t>(std::find_if(calls_.begin(), calls_.end(), after) - calls_.begin());
  }
  Users& users(BufferId b) { return users_[static_cast<std::size_t>(program_.root(b))]; }
  const Distribution& held(BufferId b) const { return program_.buffer(program_.root(b)).distribution; }
  void note_users(int c);
  void add_sum(BufferId whole, const std::vector<BufferId>& parts, const Bucket& names);
  int first_update(const Bucket& bucket) const;

  CompileState& build_;
  Program& program_;
  std::vector<Call>& calls_;
  std::vector<Users> users_;
  const PhaseEnds ends_;  ///< in the program without the insertions
  std::vector<Insertion> insertions_;
};

void Inserter::note_users(int c) {
  const Call& call = calls_[static_cast<std::size_t>(c)];
  const auto makes_terms = [&](Distribution::Axes axes) {
    return std::any_of(call.operands.begin(), call.operands.end(),
                       [&](const Operand& o) { return o.writes() && held(o.id).partial_axes == axes; });
  };
  for (const Operand& o : call.operands)
    if (o.writes()) users(o.id).last_writer = c;
  for (const Operand& o : call.operands) {
    if (!o.reads() || !held(o.id).is_partial()) continue;
    Users& u = users(o.id);
    const bool own_term = u.last_writer == c || (is_linear(call) && makes_terms(held(o.id).partial_axes));
    if (!own_term && u.first_reader < 0) u.first_reader = c;
  }
}

void Inserter::add_buckets(const std::vector<Bucket>& buckets) {
  for (const Bucket& b : buckets) {
    for (BufferId part : b.parts) users(part).in_bucket = true;
    users(b.whole).in_bucket = true;
    if (build_.ranks(program_.buffer(b.parts[0]).distribution.partial_axes) > 1 && !build_.lag)
      add_sum(b.whole, b.parts, b);
  }
  // Buckets that do not outlive their sum share the memory of two.
  for (std::size_t b = 0; b + 1 < buckets.size(); ++b)
    if (program_.buffer(buckets[b].whole).storage == Storage::arena)
      insertions_[b].wait_behind = std::max(insertions_[b].last_writer, insertions_[b + 1].last_writer);
}

void Inserter::add_partial_values() {
  for (BufferId b = 0; b < static_cast<BufferId>(users_.size()); ++b) {
    const Buffer& buffer = program_.buffer(b);
    if (buffer.view_of != no_buffer || users(b).in_bucket || !buffer.distribution.is_partial()) continue;
    if (build_.ranks(buffer.distribution.partial_axes, buffer.distribution.group) > 1 &&
        (buffer.keep || users(b).first_reader >= 0))
      add_sum(b, {b}, {.whole = b, .node = buffer.name, .label = buffer.name});
  }
}

/// The first call of the phase update that reads gradients of this bucket, as a parameter's own or among those of a
/// larger part of the block, or in this rank's shard; -1: none.
int Inserter::first_update(const Bucket& of) const {
  const Buffer& bucket = program_.buffer(of.whole);
  const auto reads = [&](const Operand& o) {
    if (o.id == no_buffer || !o.reads()) return false;
    if (of.shard != no_buffer) return program_.root(o.id) == program_.root(of.shard);
    const Buffer& b = program_.buffer(program_.root(o.id));
    return b.storage == Storage::gradients && b.offset < bucket.offset + bucket.bytes &&
           bucket.offset < b.offset + b.bytes;
  };
  for (std::size_t c = ends_.exchange; c < calls_.size(); ++c)
    if (std::any_of(calls_[c].operands.begin(), calls_[c].operands.end(), reads)) return static_cast<int>(c);
  return -1;
}

void Inserter::add_sum(BufferId whole, const std::vector<BufferId>& parts, const Bucket& names) {
  Insertion i;
  for (BufferId part : parts) {
    const Users& u = users(part);
    i.last_writer = std::max(i.last_writer, u.last_writer);
    if (u.first_reader < 0 || u.first_reader >= static_cast<int>(ends_.backward)) continue;
    if (i.first_reader < 0 || u.first_reader < i.first_reader) i.first_reader = u.first_reader;
  }
  if (i.first_reader < 0 && users(whole).in_bucket) i.first_reader = first_update(names);
  KEELSON_EXPECT(i.first_reader < 0 || i.first_reader > i.last_writer);
  const bool in_step = i.first_reader >= 0 && i.first_reader < static_cast<int>(ends_.backward);
  const Phase phase = in_step ? calls_[static_cast<std::size_t>(i.first_reader)].phase : Phase::exchange;
  const Distribution& terms = program_.buffer(parts[0]).distribution;
  CommunicationDesc sum{.axes = terms.partial_axes,
                        .group = terms.group,
                        .dst = whole,
                        .wire = names.wire,
                        .order = build_.order,
                        .label = names.label};
  if (names.shard != no_buffer) {
    sum.kind = Kind::reduce_scatter;
    sum.src = whole;
    sum.dst = names.shard;
    sum.consumes_src = true;
  }
  i.start = start_of(build_, {phase, names.node, ""}, sum);
  insertions_.push_back(std::move(i));
}

PhaseEnds Inserter::insert() {
  PhaseEnds ends;
  std::vector<Call> result;
  const auto append_starts = [&](auto chosen) {
    for (const Insertion& i : insertions_)
      if (chosen(i)) result.push_back(i.start);
  };
  const auto append_ends = [&](auto chosen) {
    for (const Insertion& i : insertions_)
      if (chosen(i)) result.push_back(end_of(i.start));
  };
  // These sums begin when all micro-batches are done: forward and backward run several times before.
  const auto starts_behind_backward = [&](const Insertion& i) {
    return (build_.order == SumOrder::tree || build_.accumulates) && i.start.phase == Phase::exchange;
  };
  // A collective that starts in forward also ends there. One that is read later starts in backward.
  const auto starts_late = [&](const Insertion& i) {
    return i.last_writer < static_cast<int>(ends_.forward) && i.start.phase != Phase::forward &&
           !starts_behind_backward(i);
  };
  for (std::size_t c = 0; c <= calls_.size(); ++c) {
    if (c == ends_.forward) ends.forward = result.size(), append_starts(starts_late);
    if (c == ends_.backward) {
      ends.backward = result.size();
      append_starts(starts_behind_backward);
      append_ends([](const Insertion& i) { return i.first_reader < 0 && i.wait_behind < 0; });
    }
    if (c == ends_.exchange) ends.exchange = result.size();
    if (c == calls_.size()) break;
    append_ends([&](const Insertion& i) { return i.first_reader == static_cast<int>(c) && i.wait_behind < 0; });
    result.push_back(std::move(calls_[c]));
    append_starts([&](const Insertion& i) {
      return i.last_writer == static_cast<int>(c) && !starts_late(i) && !starts_behind_backward(i);
    });
    append_ends([&](const Insertion& i) { return i.wait_behind == static_cast<int>(c); });
  }
  calls_ = std::move(result);
  return ends;
}

}  // namespace

Call start_of(CompileState& build, CallLabel label, const CommunicationDesc& desc) {
  const Program& program = build.program;
  const std::string_view name = name_of(desc.kind);
  auto operands = operands_of(desc);
  for (const Operand& o : operands)
    if (o.id == no_buffer) fail("{}: {} of '{}': {} is missing", label.node, name, desc.label, to_string(o.role));
  if (desc.group != 0 && desc.kind != Kind::allreduce)
    fail("{}: {} of '{}' in groups of {} ranks: only an allreduce takes groups", label.node, name, desc.label,
         desc.group);
  if (desc.point_to_point() && desc.axes != ProcessGrid::Axes(desc.axes.last()))
    fail("{}: {} of '{}' along {}: a neighbor is a rank along one axis, so give one axis", label.node, name, desc.label,
         ProcessGrid::to_string(desc.axes));
  const auto ranks = static_cast<std::size_t>(build.ranks(desc.axes));
  if (operands.size() == 2) {
    const std::size_t src = program.buffer(desc.src).bytes, dst = program.buffer(desc.dst).bytes;
    if (!sizes_fit(desc.kind, src, dst, ranks))
      fail("{}: {} of '{}' over {} ranks: src has {} bytes and dst has {}", label.node, name, desc.label, ranks, src,
           dst);
  }
  if (ranks == 1 && desc.periodic)
    fail("{}: {} of '{}' in a ring of one rank, which would be its own neighbor: leave it out", label.node, name,
         desc.label);
  const DType type = program.buffer(operands.back().id).desc.dtype;
  const bool sums = desc.kind == Kind::allreduce || desc.kind == Kind::reduce_scatter;
  if (sums && type != DType::f32 && type != DType::f64)
    fail("{}: {} of '{}': {} cannot be summed over ranks, expected f32 or f64", label.node, name, desc.label,
         to_string(type));
  return {label.phase, std::move(label.node), std::string(name), std::move(operands),
          Communication{desc, Communication::Step::start, build.program.new_channel()}};
}

Call end_of(Call start) {
  std::get<Communication>(start.work).step = Communication::Step::wait;
  start.op = "wait for " + start.op;
  return start;
}

PhaseEnds insert_collectives(CompileState& build, const std::vector<Bucket>& buckets,
                             const std::vector<Call>& gathers) {
  Inserter inserter(build);
  inserter.add_buckets(buckets);
  inserter.add_partial_values();
  inserter.add_gathers(gathers);
  return inserter.insert();
}

}  // namespace keelson
