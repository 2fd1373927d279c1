#include "engine/graph/gradients.hpp"

namespace keelson {

namespace {

constexpr std::size_t floats_per_line = 16;  // 64 bytes: every gradient is as aligned as the primitives want

/// Last call that writes `b` (or a view of it).
int last_writer(const Program& program, BufferId b) {
  for (int c = static_cast<int>(program.calls().size()) - 1; c >= 0; --c)
    for (const Operand& o : program.calls()[c].operands)
      if (o.write && o.id != no_buffer && program.root(o.id) == b) return c;
  return -1;
}

}  // namespace

Gradients::Gradients(PlanBuild& build, std::size_t bucket_bytes, Communicator* communicator) {
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
  if (total == 0) return;

  block_ = build.parameters.context().allocate(TensorDesc::plain({static_cast<std::int64_t>(total)}), "gradients");
  auto* data = static_cast<float*>(block_.raw());
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    Buffer& b = build.program.buffer(build.gradients[i].second);
    b.external = Tensor(b.desc, data + offsets[i]);
  }
  if (communicator && communicator->size() > 1)
    for (Bucket& b : buckets_) b.reduce = communicator->make_allreduce(data + b.offset, b.count, b.label);
}

void Gradients::insert_exchange(Program& program) {
  std::vector<Call> calls;
  for (int c = 0; c < static_cast<int>(program.calls().size()); ++c) {
    calls.push_back(std::move(program.calls()[c]));
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      if (buckets_[i].last_call != c || !buckets_[i].reduce) continue;
      Call start{};
      start.phase = Phase::exchange;
      start.node = fmt::format("bucket {}", i + 1);
      start.op = "allreduce";
      start.run = [reduce = buckets_[i].reduce.get()](const Tensor*) { reduce->start(); };
      calls.push_back(std::move(start));
    }
  }
  program.calls() = std::move(calls);
}

}  // namespace keelson
