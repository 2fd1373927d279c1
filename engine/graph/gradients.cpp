#include "engine/graph/gradients.hpp"

#include "engine/ops/embedding.hpp"

namespace keelson {

namespace {

using ops::Access;
using ops::Role;

constexpr std::int64_t floats_per_line = 16;  // 64 bytes: every gradient is as aligned as the primitives want

/// Last call that writes `b` (or a view of it).
int last_writer(const Program& program, BufferId b) {
  for (int c = static_cast<int>(program.calls().size()) - 1; c >= 0; --c)
    for (const Operand& o : program.calls()[c].operands)
      if (o.writes() && program.root(o.id) == b) return c;
  return -1;
}

}  // namespace

Call start_collective(Program& program, Phase phase, const std::string& node, Communication::Kind kind,
                      std::vector<Operand> operands, std::string label) {
  const bool reduces = kind == Communication::Kind::allreduce;
  return {phase, node, reduces ? "allreduce" : "allgather", std::move(operands),
          Communication{kind, Communication::Step::start, program.new_channel(), std::move(label)}};
}

Call end_of(Call start) {
  auto& communication = std::get<Communication>(start.work);
  communication.step = Communication::Step::wait;
  start.op = "wait for " + start.op;
  return start;
}

Gradients::Gradients(CompileState& build, std::size_t bucket_bytes) {
  add_buckets(build, bucket_bytes);
  if (build.ranks > 1)
    for (const SparseGradient& g : build.sparse_gradients) gather(build, g);
}

void Gradients::add_buckets(CompileState& build, std::size_t bucket_bytes) {
  Program& program = build.program;
  std::int64_t begin = 0;
  int last_call = -1;
  std::string first;
  const auto close = [&](const std::string& last) {
    ++buckets_;
    if (build.ranks > 1) {
      const std::string node = fmt::format("bucket {}", buckets_);
      const BufferId b = program.add(node, TensorDesc::plain({floats_ - begin}), Storage::gradients);
      program.buffer(b).offset = static_cast<std::size_t>(begin) * sizeof(float);
      exchanges_.push_back({last_call, start_collective(program, Phase::exchange, node, Communication::Kind::allreduce,
                                                        {{b, Role::src, Access::update}},
                                                        fmt::format("gradient {} ({}{})", node, first,
                                                                    first == last ? "" : " ... " + last))});
    }
    begin = floats_;
    last_call = -1;
  };
  for (const auto& [name, id] : build.gradients) {
    if (begin == floats_) first = name;
    Buffer& b = program.buffer(id);
    b.storage = Storage::gradients;
    b.offset = static_cast<std::size_t>(floats_) * sizeof(float);
    const auto floats = static_cast<std::int64_t>(b.bytes / sizeof(float));
    floats_ += (floats + floats_per_line - 1) / floats_per_line * floats_per_line;
    last_call = std::max(last_call, last_writer(program, id));
    if (static_cast<std::size_t>(floats_ - begin) * sizeof(float) >= bucket_bytes) close(name);
  }
  if (begin < floats_) close(build.gradients.back().first);
}

void Gradients::gather(CompileState& build, const SparseGradient& mine) {
  Program& program = build.program;
  const std::int64_t count = mine.count * build.ranks, width = program.buffer(mine.values).desc.shape[1];
  const auto make = [&](BufferId like, const TensorDesc& desc) {
    return program.add(program.buffer(like).name + " of all ranks", desc, Storage::owned);
  };
  const SparseGradient all{mine.parameter, count, make(mine.rows, TensorDesc::plain({count}, DType::s32)),
                           make(mine.values, TensorDesc::plain({count, width}))};
  const int last_call = last_writer(program, mine.values);
  const auto exchange = [&](BufferId from, BufferId to, const std::string& what) {
    exchanges_.push_back(
        {last_call, start_collective(program, Phase::exchange, mine.parameter, Communication::Kind::allgather,
                                     {{from, Role::src, Access::read}, {to, Role::dst, Access::write}},
                                     fmt::format("gradient of {} ({})", mine.parameter, what))});
  };
  exchange(mine.rows, all.rows, "row numbers");
  exchange(mine.values, all.values, "rows");
  gathered_.push_back(all);
}

void Gradients::insert_starts(Program& program) const {
  std::vector<Call> calls;
  for (int c = 0; c < static_cast<int>(program.calls().size()); ++c) {
    calls.push_back(std::move(program.calls()[c]));
    for (const Exchange& e : exchanges_)
      if (e.last_call == c) calls.push_back(e.start);
  }
  program.calls() = std::move(calls);
}

void Gradients::append_ends(CompileState& build) {
  Program& program = build.program;
  Context& context = build.parameters.context();
  for (const Exchange& e : exchanges_) program.calls().push_back(end_of(e.start));
  for (std::size_t i = 0; i < gathered_.size(); ++i) {
    const SparseGradient all = gathered_[i];
    const TensorDesc rows = program.buffer(all.rows).desc, values = program.buffer(all.values).desc;
    std::shared_ptr<ops::Embedding> merge =
        context.make(ops::EmbeddingDesc{rows, build.parameters.at(all.parameter).value.desc()});
    const SparseGradient merged{all.parameter, all.count, program.add(all.parameter + " rows", rows, Storage::owned),
                                program.add(all.parameter + " gradient", values, Storage::owned)};
    build.sparse_gradients[i] = merged;
    append_call<ops::Embedding, ops::Embedding::BackwardWeights>(
        program, {Phase::exchange, all.parameter, "sum of rows"}, merge,
        {.ids = all.rows, .diff_dst = all.values, .rows = merged.rows, .diff_rows = merged.values});
  }
}

}  // namespace keelson
