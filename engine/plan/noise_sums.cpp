#include "engine/plan/noise_sums.hpp"

#include <algorithm>
#include <iterator>

#include "engine/base/error.hpp"
#include "engine/ops/update.hpp"

namespace keelson {
namespace {

constexpr const char* node = "noise scale";

struct Inserted {
  std::size_t before;  ///< index in the program without the insertions
  Call call;
};

BufferId new_noise_sums(Program& program, const std::string& name, std::size_t count) {
  return program.add(name, TensorDesc::plain({static_cast<std::int64_t>(count)}, DType::f64), Storage::owned);
}

Call sum_of_squares(CompileState& build, Phase phase, BufferId src, BufferId sums, std::size_t index) {
  Program& program = build.program;
  std::shared_ptr<ops::SumSquares> op = build.parameters.context().make(
      ops::SumSquaresDesc{program.buffer(src).desc, static_cast<std::int64_t>(index)});
  append_call<ops::SumSquares, ops::SumSquares::Forward>(program, {phase, node, "sum of squares"}, op,
                                                         {.src = src, .sums = sums});
  Call call = std::move(program.calls().back());
  program.calls().pop_back();
  return call;
}

/// The call that starts the exchange of this buffer; the end of the backward pass if the exchange begins behind it.
std::size_t before_exchange(const CompileState& build, BufferId buffer, const PhaseEnds& ends) {
  if (build.accumulates || build.order == SumOrder::tree) return ends.backward;
  const auto& calls = build.program.calls();
  const auto starts = [&](const Call& call) {
    const Communication* c = call.communication();
    return c && c->step == Communication::Step::start && (c->desc.src == buffer || c->desc.dst == buffer);
  };
  const auto found = std::ranges::find_if(calls, starts);
  KEELSON_EXPECT(found != calls.end());
  return static_cast<std::size_t>(found - calls.begin());
}

/// What this rank has of the gradient of all samples: its shards, or all.
std::vector<BufferId> whole_gradient(CompileState& build, const Gradients& gradients) {
  std::vector<BufferId> all;
  if (gradients.shards()) {
    for (const Bucket& b : gradients.buckets()) all.push_back(b.shard);
    return all;
  }
  if (gradients.floats() > 0)
    all.push_back(build.program.add("gradients", TensorDesc::plain({gradients.floats()}), Storage::gradients));
  for (const SparseGradient& g : build.sparse_gradients) all.push_back(g.values);
  return all;
}

/// The sum over ranks, as two calls that follow each other.
void add_sum(CompileState& build, std::vector<Inserted>& all, std::size_t before, Phase phase, BufferId sums) {
  const Call start =
      start_of(build, {phase, node, ""}, {.dst = sums, .order = build.order, .label = build.program.buffer(sums).name});
  all.push_back({before, start});
  all.push_back({before, end_of(start)});
}

NoiseSums insert(Program& program, std::vector<Inserted> all, PhaseEnds& ends) {
  std::ranges::stable_sort(all, {}, &Inserted::before);
  const auto moved = [&](std::size_t end, Phase phase) {
    return end + static_cast<std::size_t>(std::ranges::count_if(all, [&](const Inserted& i) {
             return i.before < end || (i.before == end && i.call.phase <= phase);
           }));
  };
  ends = {moved(ends.forward, Phase::forward), moved(ends.backward, Phase::backward),
          moved(ends.exchange, Phase::exchange)};
  NoiseSums sums;
  std::vector<Call> calls;
  auto next = all.begin();
  for (std::size_t c = 0; c <= program.calls().size(); ++c) {
    for (; next != all.end() && next->before == c; ++next) {
      sums.calls.push_back(calls.size());
      calls.push_back(std::move(next->call));
    }
    if (c < program.calls().size()) calls.push_back(std::move(program.calls()[c]));
  }
  program.calls() = std::move(calls);
  return sums;
}

}  // namespace

void require_noise_scale(const PlanOptions& o) {
  if (!o.noise_scale || !o.training) return;
  const auto ranks = [&](ProcessGrid::Axes axes) { return o.grid ? o.grid->extent(axes) : 1; };
  if (ranks({Distribution::Axis::space, Distribution::Axis::channel, Distribution::Axis::stage}) > 1)
    refuse(
        "the noise scale (--noise-scale) on several ranks to a replica (--spatial, --channel-parallel, --stages): no "
        "rank has a gradient of samples of its own. Leave one of the options out");
  if (o.lag)
    refuse(
        "the noise scale (--noise-scale) with --sync lag: it compares gradients of one step. Leave one of the two "
        "options out");
  if (ranks(Distribution::batch) * o.micro_batches() < 2)
    refuse(
        "the noise scale (--noise-scale) on one rank in one pass: it compares gradients of parts of the batch with that "
        "of the whole. Give --micro-batches 2 or more, or start more ranks");
}

NoiseSums insert_noise_sums(CompileState& build, const Gradients& gradients, PhaseEnds& ends) {
  Program& program = build.program;
  const bool exchanges = build.ranks(Distribution::batch) > 1;
  std::vector<BufferId> own;
  for (const Bucket& b : gradients.buckets()) own.push_back(b.whole);
  for (const SparseGradient& g : gradients.own_rows()) own.push_back(g.values);
  const std::vector<BufferId> all = whole_gradient(build, gradients);
  const BufferId parts = new_noise_sums(program, "squares of the gradients of parts", own.size() + 1),
                 whole = new_noise_sums(program, "squares of the gradient", all.size());
  std::vector<Inserted> inserted;
  for (std::size_t i = 0; i < own.size(); ++i)
    inserted.push_back(
        {before_exchange(build, own[i], ends), sum_of_squares(build, Phase::backward, own[i], parts, i)});
  if (exchanges) add_sum(build, inserted, ends.exchange, Phase::exchange, parts);
  for (std::size_t i = 0; i < all.size(); ++i)
    inserted.push_back({ends.exchange, sum_of_squares(build, Phase::update, all[i], whole, i)});
  if (gradients.shards()) add_sum(build, inserted, ends.exchange, Phase::update, whole);
  NoiseSums sums = insert(program, std::move(inserted), ends);
  sums.parts = parts;
  sums.whole = whole;
  return sums;
}

}  // namespace keelson
