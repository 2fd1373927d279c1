#include <algorithm>
#include <chrono>
#include <cmath>

#include "engine/base/error.hpp"
#include "engine/data/bag.hpp"
#include "engine/execute/culprit.hpp"
#include "engine/train/stack/detail/stack_worker.hpp"

namespace keelson::detail {
namespace {

using Clock = std::chrono::steady_clock;

std::size_t number_of_field(const Dataset* data, const std::string& name) {
  std::size_t i = 0;
  while (data && i < data->fields().size() && data->fields()[i].name != name) ++i;
  return i;
}

std::string not_finite(double loss, const RunState& state, const std::string& culprit) {
  return fmt::format("the loss became {} in step {}; {}",
                     std::isnan(loss) ? "NaN"
                     : loss > 0       ? "infinite"
                                      : "minus infinite",
                     state.step + 1, why_not_finite(culprit, "the loss itself"));
}

}  // namespace

bool MemberState::reads_predictions() const {
  return std::ranges::any_of(member.metrics, [](const auto& metric) { return metric->reads_predictions(); });
}

Batch MemberState::weighted(Batch batch, std::int64_t room) {
  if (!member.bag) return batch;
  weights.assign(static_cast<std::size_t>(room), 0.0f);
  batch.global_weight = 0;
  for (std::int64_t i = 0; i < batch.count; ++i) {
    const auto w = bag_weight(member.seed, batch.indices[i]);
    weights[static_cast<std::size_t>(i)] = static_cast<float>(w);
    batch.global_weight += static_cast<double>(w);
  }
  batch.weight = weights.data();
  return batch;
}

StackWorker::StackWorker(Context& context, int number, const StackedOptions& options, const Dataset& training,
                         const Dataset* validation)
    : context_(context),
      number_(number),
      options_(options),
      training_(training),
      validation_(validation),
      target_field_(number_of_field(validation, options.target)),
      instance_(context.device().make_instance({.threads = context.device().shares_host_memory() ? 1 : 0})),
      arena_(std::make_shared<Arena>(context)) {}

const Plan& StackWorker::plan_of(MemberState& m, bool training) {
  auto& plan = plans_[{m.member.graph.get(), training ? m.member.optimizer.get() : nullptr}];
  if (!plan) {
    PlanOptions options{.batch = options_.batch, .training = training, .precision = options_.precision};
    if (training) options.optimizer = m.member.optimizer.get();
    options.inputs_as_read = !context_.device().shares_host_memory();
    plan = std::make_unique<Plan>(*m.member.graph, m.parameters, options);
  }
  return *plan;
}

void StackWorker::take(MemberState& m) {
  if (m.worker == number_) return;
  const InstanceScope scope(*instance_);
  m.training.reset();
  m.validation.reset();
  const ExecutorOptions options{.arena = arena_, .instance = instance_};
  m.training.emplace(plan_of(m, true), m.parameters, options, training_, decoding_for(context_.device()));
  if (validation_) {
    m.validation.emplace(plan_of(m, false), m.parameters, options, *validation_, decoding_for(context_.device()));
    if (m.reads_predictions())
      m.predictions.resize(static_cast<std::size_t>(m.validation->executor.output(options_.prediction).elements()));
  }
  m.worker = number_;
}

template <class Begin, class Work>
void StackWorker::for_each_block(const std::vector<MemberState*>& members, BlockRing& blocks, const Begin& begin_with,
                                 const Work& work) {
  try {
    const InstanceScope scope(*instance_);
    for (MemberState* m : members) begin_with(*m);
    for (std::int64_t i = 0; const BatchBlock* block = blocks.to_read(i); ++i) {
      for (MemberState* m : members) {
        if (!m->record.failure.empty()) continue;
        const auto begin = Clock::now();
        work(*m, *block);
        m->seconds += std::chrono::duration<double>(Clock::now() - begin).count();
      }
      blocks.leave(i);
    }
  } catch (...) {
    blocks.fail();
    throw;
  }
}

void StackWorker::train(const std::vector<MemberState*>& members, BlockRing& blocks) {
  for_each_block(
      members, blocks, [](MemberState& m) { m.training->executor.reset_states(); },
      [&](MemberState& m, const BatchBlock& block) { train_on(m, block); });
}

/// The steps of a Trainer on one rank.
void StackWorker::train_on(MemberState& m, const BatchBlock& block) {
  RunState& state = m.record.state;
  Executor& executor = m.training->executor;
  ops::StepParams params;
  params.seed = m.member.seed;
  for (const Batch& shared : block.batches()) {
    const Batch batch = m.weighted(shared, options_.batch);
    params.step = static_cast<std::uint64_t>(state.step);
    const double rate = m.member.schedule.at(position(state));
    params.learning_rate = static_cast<float>(rate);
    params.averaging_weight = static_cast<float>(averaging_weight(state, rate));
    params.sample_offset = batch.sample_offset;
    params.inverse_samples = batch.inverse_weight();
    m.training->input.feed(batch);
    executor.forward(params);
    executor.backward();
    const double loss = executor.loss();
    if (!std::isfinite(loss)) {
      m.record.failure = not_finite(loss, state, executor.first_non_finite(batch.micro_batch(0, options_.batch)));
      m.training->input.finish();
      return;
    }
    executor.update();
    if (m.member.optimizer->reads_ahead()) count_rate(state, rate);
    executor.carry_states();
    m.training->input.finish();
    ++state.step;
    ++state.step_in_epoch;
    state.samples += batch.global_count;
    state.loss_sum += loss * batch.total_weight();
    state.loss_samples += batch.total_weight();
  }
}

void StackWorker::validate(const std::vector<MemberState*>& members, BlockRing& blocks) {
  const auto begin = [](MemberState& m) {
    m.validation->executor.reset_states();
    m.validation_sum = {};
    for (const auto& metric : m.member.metrics) metric->reset(m.setup);
  };
  for_each_block(members, blocks, begin, [&](MemberState& m, const BatchBlock& block) { validate_on(m, block); });
}

void StackWorker::validate_on(MemberState& m, const BatchBlock& block) {
  Executor& executor = m.validation->executor;
  ops::StepParams params;
  params.inverse_samples = 1;  // sums over samples
  for (const Batch& batch : block.batches()) {
    params.sample_offset = batch.sample_offset;
    m.validation->input.feed(batch);
    executor.forward(params);
    const double loss = executor.loss();
    m.validation_sum.add(loss);
    if (!m.member.metrics.empty()) {
      MetricBatch seen{batch.count, batch.indices, loss, nullptr, nullptr};
      if (m.reads_predictions()) {
        const Tensor t = executor.output(options_.prediction);
        context_.device().copy_to_host(m.predictions.data(), t.raw(), t.bytes());
        seen.predictions = m.predictions.data();
        seen.targets = batch.fields[target_field_];
      }
      for (const auto& metric : m.member.metrics) metric->update(seen);
    }
    executor.carry_states();
    m.validation->input.finish();
  }
}

}  // namespace keelson::detail
