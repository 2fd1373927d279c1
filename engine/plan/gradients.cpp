#include "engine/plan/gradients.hpp"

#include "engine/ops/embedding.hpp"

namespace keelson {

namespace {

constexpr std::int64_t floats_per_line = 16;  // 64 bytes, the alignment that primitives want

/// Adds up rows of the same number. The result has rising row numbers.
SparseGradient merge_rows(CompileState& build, const SparseGradient& all) {
  Program& program = build.program;
  const TensorDesc rows = program.buffer(all.rows).desc, values = program.buffer(all.values).desc;
  std::shared_ptr<ops::Embedding> merge =
      build.parameters.context().make(ops::EmbeddingDesc{rows, build.parameters.at(all.parameter).value.desc()});
  const SparseGradient merged{all.parameter, all.count, program.add(all.parameter + " rows", rows, Storage::owned),
                              program.add(all.parameter + " gradient", values, Storage::owned)};
  append_call<ops::Embedding, ops::Embedding::BackwardWeights>(
      program, {Phase::exchange, all.parameter, "sum of rows"}, merge,
      {.ids = all.rows, .diff_dst = all.values, .rows = merged.rows, .diff_rows = merged.values});
  return merged;
}

}  // namespace

Gradients::Gradients(CompileState& build, const ExchangeOptions& exchange) {
  fill_buckets(build, exchange);
  if (build.ranks(Distribution::batch) == 1) return;
  for (SparseGradient& g : build.sparse_gradients) g = merge_rows(build, gather(build, g));
}

void Gradients::fill_buckets(CompileState& build, const ExchangeOptions& exchange) {
  Program& program = build.program;
  std::int64_t begin = 0;
  std::vector<BufferId> parts;
  std::string first;
  const auto close = [&](const std::string& last) {
    const std::string node = fmt::format("bucket {}", buckets_.size() + 1);
    const BufferId whole = program.add(node, TensorDesc::plain({floats_ - begin}), Storage::gradients);
    program.buffer(whole).offset = static_cast<std::size_t>(begin) * sizeof(float);
    const std::string label = fmt::format("gradient {} ({}{})", node, first, first == last ? "" : " ... " + last);
    buckets_.push_back({whole, std::move(parts), node, label, exchange.wire});
    begin = floats_;
    parts.clear();
  };
  for (const auto& [name, id] : build.gradients) {
    if (begin == floats_) first = name;
    Buffer& b = program.buffer(id);
    b.storage = Storage::gradients;
    b.offset = static_cast<std::size_t>(floats_) * sizeof(float);
    const auto floats = static_cast<std::int64_t>(b.bytes / sizeof(float));
    floats_ += (floats + floats_per_line - 1) / floats_per_line * floats_per_line;
    parts.push_back(id);
    if (static_cast<std::size_t>(floats_ - begin) * sizeof(float) >= exchange.bucket_bytes) close(name);
  }
  if (begin < floats_) close(build.gradients.back().first);
}

SparseGradient Gradients::gather(CompileState& build, const SparseGradient& mine) {
  Program& program = build.program;
  const std::int64_t count = mine.count * build.ranks(Distribution::batch),
                     width = program.buffer(mine.values).desc.shape[1];
  const auto all_ranks = [&](BufferId from, const TensorDesc& desc, const std::string& what) {
    const BufferId to = program.add(program.buffer(from).name + " of all ranks", desc, Storage::owned);
    gathers_.push_back(start_of(build, {Phase::exchange, mine.parameter, ""},
                                {.kind = CollectiveDesc::Kind::allgather,
                                 .src = from,
                                 .dst = to,
                                 .label = fmt::format("gradient of {} ({})", mine.parameter, what)}));
    return to;
  };
  const BufferId rows = all_ranks(mine.rows, TensorDesc::plain({count}, DType::s32), "row numbers");
  return {mine.parameter, count, rows, all_ranks(mine.values, TensorDesc::plain({count, width}), "rows")};
}

}  // namespace keelson
