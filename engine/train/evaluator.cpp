#include "engine/train/evaluator.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <limits>
#include <span>

#include "engine/base/activity.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/error.hpp"
#include "engine/base/exact_sum.hpp"
#include "engine/base/ranks.hpp"
#include "engine/execute/culprit.hpp"
#include "engine/train/detail/evaluated_batch.hpp"
#include "engine/train/training_grid.hpp"

namespace keelson {
namespace {

void compare_data(const Dataset& data, Communicator* communicator) {
  if (!communicator || communicator->size() == 1) return;
  // Without the paths, which may differ.
  compare_values(*communicator,
                 {{"the data", fmt::format("{} [{:016x}]", counted(data.size(), "sample"), data.digest())}}, "data",
                 "let all ranks see the same files");
}

}  // namespace

Evaluator::Evaluator(const Graph& graph, Parameters& parameters, const Dataset& dataset, Communicator* communicator,
                     const EvaluatorOptions& options)
    : dataset_((compare_data(dataset, communicator), require_all_inputs(graph, dataset), dataset)),
      communicator_(communicator),
      options_(options),
      context_(parameters.context()) {
  if (options_.evaluation.units == 0)
    options_.evaluation.units = static_cast<double>(dataset.size() * options_.unit.per_sample);
  make_grid();
  set_network(graph, parameters);
  deal_samples();  // after the plan, which knows best whether there is memory for the batch
}

Evaluator::~Evaluator() = default;

const Executor& Evaluator::executor() const {
  KEELSON_EXPECT(network_);
  return network_->executor;
}

void Evaluator::make_grid() {
  const auto extents = training_extents(communicator_ ? communicator_->size() : 1, options_.replica);
  if (ranks_of(extents) > 1) replicas_.emplace(*communicator_, extents);
}

void Evaluator::release_group() {
  if (options_.cache.enabled()) drop_loader();  // its room may be another one for the next group
  if (ranks_of(options_.replica) == 1) return;  // the plan does not communicate
  release_network();
  drop_loader();
  replicas_.reset();
}

void Evaluator::regroup(const Graph& graph, Parameters& parameters, Communicator* communicator,
                        const CacheOptions& cache) {
  communicator_ = communicator;
  options_.cache = cache;
  make_grid();
  if (!network_) set_network(graph, parameters);
  deal_samples();
}

SampleCounts Evaluator::counts() const {
  SampleCounts all = counts_before_;
  if (loader_) all += loader_->counts();
  return all;
}

void Evaluator::drop_loader() {
  counts_before_ = counts();
  loader_.reset();
}

void Evaluator::deal_samples() {
  drop_loader();  // before the next one, which wants as much memory
  const ProcessGrid grid = training_grid(communicator_, options_.replica);
  // Of the ranks that compute the same, the first one counts, and of several stages the last one, which has the
  // outputs.
  counts_ =
      grid.number({ProcessGrid::Axis::space, ProcessGrid::Axis::channel}) == 0 && network_->executor.has_outputs();
  SampleDecoding decoding = decoding_for(context_.device());
  decoding.rows = rows_;
  const LoaderOptions loader{.batch = options_.batch,
                             .rank = grid.coordinate(ProcessGrid::Axis::data),
                             .ranks = grid.extent(ProcessGrid::Axis::data),
                             .shuffle = false,
                             .threads = options_.threads,
                             .decoding = std::move(decoding),
                             .cache = options_.cache};
  loader_.emplace(dataset_, loader);
}

void Evaluator::release_network() { network_.reset(); }

void Evaluator::set_network(const Graph& graph, Parameters& parameters) {
  KEELSON_EXPECT(&parameters.context() == &context_);
  release_network();
  PlanOptions plan{.batch = options_.batch,
                   .micro_batch_count = options_.one_by_one ? 1 : options_.micro_batches,
                   .training = false,
                   .precision = options_.precision,
                   .grid = replicas_ ? &*replicas_ : nullptr,
                   .stage_starts = options_.stage_starts,
                   .peers = communicator_};
  plan.exchange.reproducible = options_.one_by_one;
  plan.whole_parameters = options_.whole_parameters || (communicator_ && communicator_->survives_losses());
  SampleDecoding decoding = decoding_for(context_.device());
  decoding.rows = rows_of_fields(graph, plan, dataset_);
  network_.emplace(graph, parameters, plan, dataset_, decoding);
  for (const auto& [name, node] : graph.outputs())
    if (name == options_.evaluation.prediction)
      prediction_shape_ = graph.nodes()[static_cast<std::size_t>(node)].shape.shape;
  if (std::exchange(rows_, decoding.rows) != decoding.rows && loader_) deal_samples();
  prepare_metrics();
}

void Evaluator::prepare_metrics() {
  setup_.data = dataset_.describe();
  setup_.samples = dataset_.size();
  setup_.units = options_.evaluation.units;
  for (const auto& m : options_.evaluation.metrics) reads_predictions_ = reads_predictions_ || m->reads_predictions();
  if (reads_predictions_) {
    const auto& fields = dataset_.fields();
    while (target_field_ < fields.size() && fields[target_field_].name != options_.evaluation.target) ++target_field_;
    if (target_field_ == fields.size()) refuse("{} has no field {}", setup_.data, options_.evaluation.target);
    if (!rows_.empty() && rows_[target_field_])
      refuse(
          "predictions are compared with {}, of which each rank reads a part (--spatial): evaluate without --spatial",
          options_.evaluation.target);
    setup_.target = fields[target_field_];
    setup_.prediction_name = options_.evaluation.prediction;
    setup_.prediction = prediction_shape_;
  }
  const bool has_predictions = reads_predictions_ && network_->executor.has_outputs();
  const auto bytes = has_predictions ? network_->executor.output(options_.evaluation.prediction).bytes() : 0;
  for (auto& b : batches_) b = std::make_unique<detail::EvaluatedBatch>(context_.device(), bytes);
  for (const auto& m : options_.evaluation.metrics) m->reset(setup_);
}

void Evaluator::launch(const Batch& batch, std::int64_t micro_batch, detail::EvaluatedBatch& into, std::int64_t step) {
  ops::StepParams step_params;
  step_params.sample_offset = batch.sample_offset;
  step_params.inverse_samples = 1;  // sums over samples
  network_->input.feed(batch, micro_batch);
  network_->executor.forward(step_params, micro_batch);
  if (micro_batch + 1 == micro_batches(batch)) network_->executor.carry_states();
  network_->executor.start_readback();
  const std::int64_t size = network_->executor.plan().options().micro_batch_size(), first = micro_batch * size;
  const std::span samples(batch.indices + first, static_cast<std::size_t>(std::min(size, batch.count - first)));
  const auto target_bytes = static_cast<std::size_t>(setup_.target.shape.elements()) * size_of(setup_.target.dtype);
  // The output is asked for anew: a larger plan of these parameters may have moved the arena.
  if (reads_predictions_ && network_->executor.has_outputs())
    into.send(samples, step,
              static_cast<const char*>(batch.fields[target_field_]) + static_cast<std::size_t>(first) * target_bytes,
              samples.size() * target_bytes, network_->executor.output(options_.evaluation.prediction));
  else
    into.send(samples, step, nullptr, 0, {});
  network_->input.finish();
}

/// Those of a batch that have samples.
std::int64_t Evaluator::micro_batches(const Batch& batch) const {
  const std::int64_t size = network_->executor.plan().options().micro_batch_size();
  return (batch.count + size - 1) / size;
}

/// Waits for a batch, and returns its loss. Metrics see the batch if this rank counts it.
double Evaluator::retire(detail::EvaluatedBatch& batch) {
  MetricBatch b;
  b.loss = network_->executor.take_readback().loss;
  batch.wait();
  b.count = batch.count;
  b.indices = batch.indices.data();
  b.predictions = static_cast<const float*>(batch.predictions.get());
  b.targets = batch.predictions ? batch.targets.data() : nullptr;
  if (counts_)
    for (const auto& m : options_.evaluation.metrics) m->update(b);
  return b.loss;
}

/// The first of the steps that the stages of this replica have found. The last stage alone computes losses.
std::optional<std::int64_t> Evaluator::first_of_stages(std::optional<std::int64_t> step) const {
  constexpr auto none = std::numeric_limits<std::int64_t>::max();
  std::int64_t first = step.value_or(none);
  replicas_->along(ProcessGrid::Axis::stage)->allreduce(&first, 1, Reduction::min);
  return first == none ? std::nullopt : std::optional(first);
}

/// Repeats the evaluation up to a step, whose values another batch has overwritten meanwhile.
std::string Evaluator::first_non_finite(std::int64_t step) {
  std::string culprit;
  loader_->start_epoch(0);
  network_->executor.reset_states();
  for (std::int64_t s = 0; s <= step; ++s) {
    const Batch* batch = loader_->next();
    for (std::int64_t m = 0; m < micro_batches(*batch); ++m) {
      network_->input.feed(*batch, m);
      ops::StepParams step_params;
      step_params.sample_offset = batch->sample_offset;
      step_params.inverse_samples = 1;
      network_->executor.forward(step_params, m);
      if (s == step) {
        const auto size = network_->executor.plan().options().micro_batch_size();
        const auto found = network_->executor.first_non_finite(batch->micro_batch(m, size));
        if (culprit.empty()) culprit = found;
      }
      context_.device().fence();
      network_->input.finish();
    }
    network_->executor.carry_states();
  }
  return culprit;
}

void Evaluator::require_finite(const Evaluation& e, std::string culprit) const {
  if (std::isfinite(e.loss) && std::isfinite(e.metric)) return;
  if (communicator_) {
    if (!culprit.empty()) culprit += fmt::format(" on rank {}", communicator_->number());
    const auto all = communicator_->allgather(culprit);
    culprit.clear();
    for (std::size_t r = 0; r < all.size() && culprit.empty(); ++r) culprit = all[r];
  }
  const auto shown = [](double v) { return std::isnan(v) ? std::string("NaN") : fmt::format("{}", v); };
  fail("evaluation on {} gives a loss of {} and a {} of {}; {}", dataset_.describe(), shown(e.loss),
       (options_.evaluation.judge() ? options_.evaluation.judge()->name() : "loss"), shown(e.metric),
       why_not_finite(culprit, "the metric itself"));
}

Evaluation Evaluator::run() {
  KEELSON_EXPECT(network_);
  const Activity activity(Activity::Kind::evaluation);
  const auto begin = std::chrono::steady_clock::now();
  Evaluation e;
  e.samples = dataset_.size();
  ExactSum loss;
  std::optional<std::int64_t> bad_step;  // the first whose loss is not finite
  for (const auto& m : options_.evaluation.metrics) m->reset(setup_);
  loader_->start_epoch(0);
  network_->executor.reset_states();
  const std::size_t ahead = context_.device().is_asynchronous() ? 1 : 0;
  std::deque<detail::EvaluatedBatch*> launched;
  const auto retire_but = [&](std::size_t left) {
    for (; launched.size() > left; launched.pop_front()) {
      const double of_batch = retire(*launched.front());
      if (counts_) loss.add(of_batch);
      if (!std::isfinite(of_batch) && !bad_step) bad_step = launched.front()->step;
    }
  };
  std::size_t count = 0;
  for (std::int64_t step = 0; const Batch* batch = loader_->next(); ++step) {
    for (std::int64_t m = 0; m < micro_batches(*batch); ++m) {
      auto& into = *batches_[count++ % std::size(batches_)];
      launch(*batch, m, into, step);
      launched.push_back(&into);
      retire_but(ahead);
    }
  }
  retire_but(0);
  if (options_.replica.stage > 1) bad_step = first_of_stages(bad_step);
  const std::string culprit = bad_step ? first_non_finite(*bad_step) : "";
  ExactSum::reduce({&loss, 1}, communicator_);
  e.loss = e.metric = loss.value() / options_.evaluation.units;
  for (const auto& m : options_.evaluation.metrics) m->reduce(communicator_);
  if (const auto* judge = options_.evaluation.judge()) {
    e.metric = judge->value();
    e.metric_values = judge->values();
  }
  require_finite(e, culprit);
  e.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return e;
}

}  // namespace keelson
