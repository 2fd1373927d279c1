#include "engine/graph/gradients.hpp"

#include "engine/ops/embedding.hpp"

namespace keelson {

namespace {

constexpr std::size_t floats_per_line = 16;  // 64 bytes: every gradient is as aligned as the primitives want

/// Last call that writes `b` (or a view of it).
int last_writer(const Program& program, BufferId b) {
  for (int c = static_cast<int>(program.calls().size()) - 1; c >= 0; --c)
    for (const Operand& o : program.calls()[c].operands)
      if (o.writes() && program.root(o.id) == b) return c;
  return -1;
}

}  // namespace

Gradients::Gradients(CompileState& build, std::size_t bucket_bytes, Communicator* communicator) {
  std::size_t total = 0;
  std::string first, last;
  const auto close = [&] {
    if (buckets_.empty() || buckets_.back().count > 0) return;
    Bucket& b = buckets_.back();
    b.count = total - b.offset;
    b.label = fmt::format("gradient bucket {} ({}{})", buckets_.size(), first, first == last ? "" : " ... " + last);
  };
  std::vector<std::size_t> offsets;
  for (const auto& [name, buffer] : build.gradients) {
    if (buckets_.empty() || buckets_.back().count > 0) {
      buckets_.push_back({});
      buckets_.back().offset = total;
      first = name;
    }
    last = name;
    offsets.push_back(total);
    total +=
        (build.program.buffer(buffer).bytes / sizeof(float) + floats_per_line - 1) / floats_per_line * floats_per_line;
    buckets_.back().last_call = std::max(buckets_.back().last_call, last_writer(build.program, buffer));
    if ((total - buckets_.back().offset) * sizeof(float) >= bucket_bytes) close();
  }
  close();
  const bool exchanges = communicator && communicator->size() > 1;
  if (exchanges)
    for (const SparseGradient& g : build.sparse_gradients) gather(build, g, *communicator);
  if (total == 0) return;

  block_ = build.parameters.context().allocate(TensorDesc::plain({static_cast<std::int64_t>(total)}), "gradients");
  auto* data = static_cast<float*>(block_.raw());
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    Buffer& b = build.program.buffer(build.gradients[i].second);
    b.external = Tensor(b.desc, data + offsets[i]);
  }
  if (exchanges)
    for (Bucket& b : buckets_) b.reduce = communicator->make_allreduce(data + b.offset, b.count, b.label);
}

void Gradients::gather(CompileState& build, const SparseGradient& mine, Communicator& communicator) {
  Program& program = build.program;
  const std::int64_t count = mine.count * communicator.size();
  const auto make = [&](BufferId like, const TensorDesc& desc) {
    Buffer b;
    b.name = program.buffer(like).name + " of all ranks";
    b.desc = desc;
    b.external = build.parameters.context().allocate(desc, b.name);
    return program.add(std::move(b));
  };
  const std::int64_t width = program.buffer(mine.values).desc.shape[1];
  const SparseGradient all{mine.parameter, count, make(mine.rows, TensorDesc::plain({count}, DType::s32)),
                           make(mine.values, TensorDesc::plain({count, width}))};
  const auto collective = [&](BufferId from, BufferId to, const std::string& what) {
    const Tensor& t = program.buffer(from).external;
    return communicator.make_allgather(t.raw(), program.buffer(to).external.raw(), t.bytes(),
                                       fmt::format("gradient of {} ({})", mine.parameter, what));
  };
  rows_.push_back({last_writer(program, mine.values), collective(mine.rows, all.rows, "row numbers"),
                   collective(mine.values, all.values, "rows")});
  gathered_.push_back(all);
}

void Gradients::insert_exchange(Program& program) {
  std::vector<Call> calls;
  const auto start = [&](const std::string& node, const std::string& op,
                         std::vector<std::shared_ptr<Collective>> collectives) {
    calls.push_back({Phase::exchange, node, op, {}, Communication{Communication::Step::start, std::move(collectives)}});
  };
  for (int c = 0; c < static_cast<int>(program.calls().size()); ++c) {
    calls.push_back(std::move(program.calls()[c]));
    for (std::size_t i = 0; i < buckets_.size(); ++i)
      if (buckets_[i].last_call == c && buckets_[i].reduce)
        start(fmt::format("bucket {}", i + 1), "allreduce", {buckets_[i].reduce});
    for (std::size_t i = 0; i < rows_.size(); ++i)
      if (rows_[i].last_call == c)
        start(gathered_[i].parameter, "allgather of rows", {rows_[i].gather_rows, rows_[i].gather_values});
  }
  program.calls() = std::move(calls);
}

void Gradients::append_merge(CompileState& build) {
  Program& program = build.program;
  Context& context = build.parameters.context();
  for (std::size_t i = 0; i < gathered_.size(); ++i) {
    const SparseGradient all = gathered_[i];
    SparseGradient& merged = build.sparse_gradients[i];
    const TensorDesc rows = program.buffer(all.rows).desc, values = program.buffer(all.values).desc;
    std::shared_ptr<ops::Embedding> merge =
        context.make(ops::EmbeddingDesc{rows, build.parameters.at(all.parameter).value.desc()});
    const auto make = [&](const std::string& what, const TensorDesc& desc) {
      Buffer b;
      b.name = all.parameter + what;
      b.desc = desc;
      b.external = context.allocate(desc, b.name);
      return program.add(std::move(b));
    };
    merged = {all.parameter, all.count, make(" rows", rows), make(" gradient", values)};
    const auto scratch_bytes = static_cast<std::int64_t>(merge->scratch_bytes(ops::Verb::backward_weights));
    append_call<ops::Embedding, ops::Embedding::BackwardWeights>(
        program, {Phase::exchange, all.parameter, "sum of rows"}, merge,
        {.ids = all.rows,
         .diff_dst = all.values,
         .rows = merged.rows,
         .diff_rows = merged.values,
         .scratch = make(" scratch", TensorDesc::plain({scratch_bytes}, DType::u8))});
  }
}

void Gradients::wait() {
  for (Bucket& b : buckets_)
    if (b.reduce) b.reduce->wait();
  for (Rows& r : rows_) {
    r.gather_rows->wait();
    r.gather_values->wait();
  }
}

}  // namespace keelson
