#include "engine/plan/noise_sums.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/ops/combine.hpp"
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

Call take_last(Program& program) {
  Call call = std::move(program.calls().back());
  program.calls().pop_back();
  return call;
}

Call sum_of_squares(CompileState& build, Phase phase, BufferId src, BufferId sums, std::size_t index) {
  Program& program = build.program;
  std::shared_ptr<ops::SumSquares> op =
      build.parameters.context().make(ops::SumSquaresDesc{program.buffer(src).desc, static_cast<std::int64_t>(index)});
  append_call<ops::SumSquares, ops::SumSquares::Forward>(program, {phase, node, "sum of squares"}, op,
                                                         {.src = src, .sums = sums});
  return take_last(program);
}

Call copy_of(CompileState& build, BufferId from, BufferId to) {
  Program& program = build.program;
  std::shared_ptr<ops::Reorder> op =
      build.parameters.context().make(ops::ReorderDesc{program.buffer(from).desc, program.buffer(to).desc});
  append_call<ops::Reorder, ops::Reorder::Forward>(program, {Phase::update, node, "copy"}, op,
                                                   {.src = from, .dst = to});
  return take_last(program);
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

/// This rank's own gradients, each with the buffer of which its exchange is a part. Buckets in the arena have other
/// values between the gradients.
std::vector<std::pair<BufferId, BufferId>> own_gradients(const CompileState& build, const Gradients& gradients) {
  std::vector<std::pair<BufferId, BufferId>> all;
  for (const Bucket& b : gradients.buckets()) {
    if (build.program.buffer(b.whole).storage != Storage::arena)
      all.emplace_back(b.whole, b.whole);
    else
      for (const BufferId part : b.parts) all.emplace_back(part, b.whole);
  }
  for (const SparseGradient& g : gradients.own_rows()) all.emplace_back(g.values, g.values);
  return all;
}

/// The sum over ranks, as two calls that follow each other.
void add_sum(CompileState& build, std::vector<Inserted>& all, std::size_t before, Phase phase, BufferId sums) {
  const Call start =
      start_of(build, {phase, node, ""}, {.dst = sums, .order = build.order, .label = build.program.buffer(sums).name});
  all.push_back({before, start});
  all.push_back({before, end_of(start)});
}

/// Of the whole gradient, which this rank has.
BufferId add_squares_of_all(CompileState& build, const Gradients& gradients, std::vector<Inserted>& inserted,
                            const PhaseEnds& ends) {
  std::vector<BufferId> all;
  if (gradients.floats() > 0)
    all.push_back(build.program.add("gradients", TensorDesc::plain({gradients.floats()}), Storage::gradients));
  for (const SparseGradient& g : build.sparse_gradients) all.push_back(g.values);
  const BufferId whole = new_noise_sums(build.program, "squares of the gradient", all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    inserted.push_back({ends.exchange, sum_of_squares(build, Phase::update, all[i], whole, i)});
  return whole;
}

/// The same, of which this rank has shards: an element for each parameter, 0 for those in the shards of others alone.
BufferId add_squares_of_shards(CompileState& build, const Shards& shards, std::vector<Inserted>& inserted,
                               const PhaseEnds& ends) {
  const std::size_t count = build.gradients.size();
  const BufferId own = new_noise_sums(build.program, "squares of this rank's shards", count),
                 whole = new_noise_sums(build.program, "squares of the gradient", count);
  for (const ParameterSlice& s : shards.slices()) {
    const auto at = std::ranges::find(build.gradients, s.parameter, &std::pair<std::string, BufferId>::first);
    inserted.push_back({ends.exchange, sum_of_squares(build, Phase::update, s.gradient, own,
                                                      static_cast<std::size_t>(at - build.gradients.begin()))});
  }
  inserted.push_back({ends.exchange, copy_of(build, own, whole)});
  add_sum(build, inserted, ends.exchange, Phase::update, whole);
  return whole;
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
        "the noise scale (--noise-scale) on one rank in one pass: it compares gradients of parts of the batch with "
        "that of the whole. Give --micro-batches 2 or more, or start more ranks");
}

NoiseSums insert_noise_sums(CompileState& build, const Gradients& gradients, PhaseEnds& ends) {
  Program& program = build.program;
  std::vector<Inserted> inserted;
  const auto own = own_gradients(build, gradients);
  const BufferId parts = new_noise_sums(program, "squares of the gradients of parts", own.size() + 1);
  for (std::size_t i = 0; i < own.size(); ++i)
    inserted.push_back(
        {before_exchange(build, own[i].second, ends), sum_of_squares(build, Phase::backward, own[i].first, parts, i)});
  if (build.ranks(Distribution::batch) > 1) add_sum(build, inserted, ends.exchange, Phase::exchange, parts);
  const BufferId whole = gradients.shards() ? add_squares_of_shards(build, *gradients.shards(), inserted, ends)
                                            : add_squares_of_all(build, gradients, inserted, ends);
  NoiseSums sums = insert(program, std::move(inserted), ends);
  sums.parts = parts;
  sums.whole = whole;
  return sums;
}

}  // namespace keelson
