#include "engine/plan/gradients.hpp"

#include <map>

#include "engine/ops/embedding.hpp"

namespace keelson {

namespace {

constexpr std::size_t line = 64;  // bytes, the alignment that primitives want

std::size_t lines(std::size_t bytes) { return (bytes + line - 1) / line * line; }

/// Adds up rows of the same number. The result has rising row numbers.
SparseGradient merge_rows(CompileState& build, const SparseGradient& all) {
  Program& program = build.program;
  const TensorDesc rows = program.buffer(all.rows).desc, values = program.buffer(all.values).desc;
  std::shared_ptr<ops::Embedding> merge =
      build.parameters.context().make(ops::EmbeddingDesc{rows, build.parameters.at(all.parameter).value.desc()});
  const SparseGradient merged{all.parameter, all.count, program.add(all.parameter + " rows", rows, Storage::owned),
                              program.add(all.parameter + " gradient", values, Storage::owned), all.axes};
  append_call<ops::Embedding, ops::Embedding::BackwardWeights>(
      program, {Phase::exchange, all.parameter, "sum of rows"}, merge,
      {.ids = all.rows, .diff_dst = all.values, .rows = merged.rows, .diff_rows = merged.values});
  return merged;
}

}  // namespace

Gradients::Gradients(CompileState& build, const ExchangeOptions& exchange) {
  fill_buckets(build, exchange);
  own_rows_ = build.sparse_gradients;
  for (SparseGradient& g : build.sparse_gradients)
    if (build.ranks(g.axes) > 1) g = merge_rows(build, gather(build, g));
}

void Gradients::fill_buckets(CompileState& build, const ExchangeOptions& exchange) {
  struct Open {
    Bucket bucket;
    std::string from, to;       ///< parameters
    std::size_t bytes = 0;      ///< of this rank
    std::size_t all_ranks = 0;  ///< the same number on all ranks, also if their parts differ in size
  };
  std::map<Distribution::Axes, Open> open;  // gradients that are summed over the same ranks
  const auto close = [&](Open& o) {
    if (o.bucket.parts.empty()) return;
    o.bucket.wire = exchange.wire;
    o.bucket.node = fmt::format("bucket {}", buckets_.size() + 1);
    o.bucket.label = fmt::format("gradient {} ({}{})", o.bucket.node, o.from, o.from == o.to ? "" : " ... " + o.to);
    buckets_.push_back(place(build, std::move(o.bucket), o.bytes));
    o = {};
  };
  for (const auto& [name, gradient] : build.gradients) {
    const Buffer& b = build.program.buffer(gradient);
    const Parameter& p = build.parameters.at(name);
    Open& o = open[b.distribution.partial_axes];
    if (o.bucket.parts.empty()) o.from = name;
    o.to = name;
    o.bytes += lines(b.bytes);
    o.all_ranks += p.part ? static_cast<std::size_t>(p.shape.elements()) * sizeof(float) /
                                static_cast<std::size_t>(build.ranks(build.channel_axis))
                          : lines(b.bytes);
    o.bucket.parts.push_back(gradient);
    if (o.all_ranks >= exchange.bucket_bytes) close(o);
  }
  for (auto& [axes, o] : open) close(o);
  if (build.shards != OptimizerShards::none && !buckets_.empty()) shards_.emplace(build, buckets_);
}

/// Gives the bucket and its gradients, which have so many bytes together, their places.
Bucket Gradients::place(CompileState& build, Bucket b, std::size_t bytes) {
  Program& program = build.program;
  const bool shards = build.shards != OptimizerShards::none, in_arena = build.shards == OptimizerShards::gradients;
  const auto ranks = static_cast<std::size_t>(build.ranks(Distribution::batch));
  if (shards) bytes = (bytes + ranks * line - 1) / (ranks * line) * (ranks * line);
  const std::size_t part = bytes / ranks, begin = static_cast<std::size_t>(floats_) * sizeof(float);
  const auto add = [&](const std::string& name, std::size_t size, Storage storage) {
    const BufferId id =
        program.add(name, TensorDesc::plain({static_cast<std::int64_t>(size / sizeof(float))}), storage);
    program.buffer(id).distribution = Distribution::partial();
    if (storage == Storage::arena) return id;
    program.buffer(id).distribution = {};
    program.buffer(id).offset = begin;
    floats_ += static_cast<std::int64_t>(size / sizeof(float));
    return id;
  };
  b.whole = add(b.node, bytes, in_arena ? Storage::arena : Storage::gradients);
  std::size_t at = 0;
  for (const BufferId gradient : b.parts) {
    Buffer& g = program.buffer(gradient);
    if (in_arena) g.view_of = b.whole;
    if (!in_arena) g.storage = Storage::gradients;
    g.offset = in_arena ? at : begin + at;
    at += lines(g.bytes);
  }
  if (in_arena) b.shard = add(b.node + " shard", part, Storage::gradients);
  if (shards && !in_arena)
    b.shard = program.view(b.whole, TensorDesc::plain({static_cast<std::int64_t>(part / sizeof(float))}),
                           part * static_cast<std::size_t>(build.grid->number(Distribution::batch)));
  return b;
}

SparseGradient Gradients::gather(CompileState& build, const SparseGradient& mine) {
  Program& program = build.program;
  const std::int64_t count = mine.count * build.ranks(mine.axes), width = program.buffer(mine.values).desc.shape[1];
  const auto all_ranks = [&](BufferId from, const TensorDesc& desc, const std::string& what) {
    const BufferId to = program.add(program.buffer(from).name + " of all ranks", desc, Storage::owned);
    gathers_.push_back(start_of(build, {Phase::exchange, mine.parameter, ""},
                                {.kind = CollectiveDesc::Kind::allgather,
                                 .axes = mine.axes,
                                 .src = from,
                                 .dst = to,
                                 .label = fmt::format("gradient of {} ({})", mine.parameter, what)}));
    return to;
  };
  const BufferId rows = all_ranks(mine.rows, TensorDesc::plain({count}, DType::s32), "row numbers");
  return {mine.parameter, count, rows, all_ranks(mine.values, TensorDesc::plain({count, width}), "rows"), mine.axes};
}

}  // namespace keelson
