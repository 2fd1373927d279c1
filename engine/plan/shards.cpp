#include "engine/plan/shards.hpp"

#include <algorithm>

#include "engine/base/printable.hpp"

namespace keelson {

namespace {

/// Bytes from the beginning of the bucket to the gradient.
std::size_t offset_in_bucket(const Program& program, BufferId gradient, BufferId bucket) {
  const Buffer& b = program.buffer(gradient);
  return b.view_of == no_buffer ? b.offset - program.buffer(bucket).offset : b.offset;
}

TensorDesc flat(std::size_t bytes) { return TensorDesc::plain({static_cast<std::int64_t>(bytes / sizeof(float))}); }

}  // namespace

OptimizerShards parse_shards(std::string_view text) {
  for (const auto s : {OptimizerShards::none, OptimizerShards::moments, OptimizerShards::gradients})
    if (text == to_string(s)) return s;
  refuse("shards of the optimizer: found '{}', expected none, moments or gradients", printable(std::string(text)));
}

Shards::Shards(CompileState& build, const std::vector<Bucket>& buckets) {
  Program& program = build.program;
  for (const Bucket& b : buckets) {
    buckets_.push_back({b.node, block_.bytes, program.buffer(b.whole).bytes});
    block_.bytes += buckets_.back().bytes;
  }
  memory_ = program.add("parameters", flat(block_.bytes), Storage::parameter);
  const auto ranks = static_cast<std::size_t>(build.ranks(Distribution::batch)),
             rank = static_cast<std::size_t>(build.grid->number(Distribution::batch));
  auto next = build.gradients.begin();
  for (std::size_t k = 0; k < buckets.size(); ++k) {
    const std::size_t part = buckets_[k].bytes / ranks, mine = rank * part;
    for (const BufferId gradient : buckets[k].parts) {
      const std::string& name = (next++)->first;
      const std::size_t begin = offset_in_bucket(program, gradient, buckets[k].whole),
                        bytes = program.buffer(gradient).bytes, first = std::max(begin, mine),
                        end = std::max(first, std::min(begin + bytes, mine + part));
      Buffer& value = program.buffer(build.parameter_buffers.at(name));
      value.view_of = memory_;
      value.offset = buckets_[k].begin + begin;
      const auto floats = [](std::size_t b) { return static_cast<std::int64_t>(b / sizeof(float)); };
      block_.places.push_back(
          {name, value.offset, {floats(std::min(first, begin + bytes) - begin), floats(end - first)}});
      if (end == first) continue;
      slices_.push_back({name, k, program.view(memory_, flat(end - first), buckets_[k].begin + first),
                         program.view(buckets[k].shard, flat(end - first), first - mine)});
    }
  }
}

std::vector<Call> Shards::gathers(CompileState& build) const {
  Program& program = build.program;
  const auto ranks = static_cast<std::size_t>(build.ranks(Distribution::batch)),
             rank = static_cast<std::size_t>(build.grid->number(Distribution::batch));
  std::vector<Call> starts;
  for (const Range& b : buckets_) {
    const std::size_t part = b.bytes / ranks;
    starts.push_back(start_of(build, {Phase::update, b.node, ""},
                              {.kind = CollectiveDesc::Kind::allgather,
                               .axes = Distribution::batch,
                               .src = program.view(memory_, flat(part), b.begin + rank * part),
                               .dst = program.view(memory_, flat(b.bytes), b.begin),
                               .label = "parameters of " + b.node}));
  }
  return starts;
}

bool Shards::is_in(const Program& program, BufferId buffer, std::size_t bucket) const {
  if (buffer == no_buffer || program.root(buffer) != memory_) return false;
  const std::size_t at = program.offset_in_root(buffer);
  return at >= buckets_[bucket].begin && at < buckets_[bucket].begin + buckets_[bucket].bytes;
}

}  // namespace keelson
