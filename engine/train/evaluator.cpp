#include "engine/train/evaluator.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <span>

#include "engine/base/activity.hpp"
#include "engine/base/error.hpp"
#include "engine/base/exact_sum.hpp"
#include "engine/base/ranks.hpp"
#include "engine/train/detail/evaluated_batch.hpp"

namespace keelson {
namespace {

PlanOptions evaluation_plan(const EvaluatorOptions& o, Context& context, Communicator* communicator) {
  PlanOptions p;
  p.inputs_as_read = converts_batches(context.device());
  p.batch = o.batch;
  p.training = false;
  p.precision = o.precision;
  p.exchange.reproducible = o.one_by_one;
  p.peers = communicator;
  return p;
}

LoaderOptions evaluation_loader(const EvaluatorOptions& o, const Communicator* c, Device& device) {
  LoaderOptions l;
  l.batch = o.batch;
  l.rank = c ? c->rank() : 0;
  l.ranks = c ? c->size() : 1;
  l.shuffle = false;
  l.threads = o.threads;
  l.prefetch = o.prefetch;
  l.cpus = o.cpus;
  l.codes = converts_batches(device);
  l.allocate = batch_memory(device);
  return l;
}

void compare_data(const Dataset& data, Communicator* communicator) {
  if (!communicator || communicator->size() == 1) return;
  compare_values(*communicator, {{"the data", fmt::format("{} [{:016x}]", data.describe(), data.digest())}}, "data",
                 "let all ranks see the same files");
}

}  // namespace

Evaluator::Evaluator(const Graph& graph, Parameters& parameters, const Dataset& dataset, Communicator* communicator,
                     const EvaluatorOptions& options)
    : dataset_((compare_data(dataset, communicator), require_all_inputs(graph, dataset), dataset)),
      communicator_(communicator),
      options_(options),
      context_(parameters.context()),
      executor_(std::make_unique<Executor>(graph, parameters, evaluation_plan(options, context_, communicator))),
      loader_(std::in_place, dataset, evaluation_loader(options, communicator, context_.device())) {
  feed_.emplace(dataset.fields(), loader_->coded(), *executor_, context_);
  if (options_.units == 0) options_.units = static_cast<double>(dataset.size() * options_.unit.per_sample);
  prepare_metrics();
}

Evaluator::~Evaluator() = default;

const Executor& Evaluator::executor() const {
  KEELSON_EXPECT(executor_);
  return *executor_;
}

void Evaluator::regroup() {
  loader_.reset();  // before the next one, which wants as much memory
  loader_.emplace(dataset_, evaluation_loader(options_, communicator_, context_.device()));
}

void Evaluator::release_network() {
  feed_.reset();
  executor_.reset();
}

void Evaluator::set_network(const Graph& graph, Parameters& parameters) {
  KEELSON_EXPECT(&parameters.context() == &context_);
  release_network();
  executor_ = std::make_unique<Executor>(graph, parameters, evaluation_plan(options_, context_, communicator_));
  feed_.emplace(dataset_.fields(), loader_->coded(), *executor_, context_);
  prepare_metrics();
}

void Evaluator::prepare_metrics() {
  setup_.data = dataset_.describe();
  setup_.samples = dataset_.size();
  setup_.units = options_.units;
  for (const auto& m : options_.metrics) reads_predictions_ = reads_predictions_ || m->reads_predictions();
  if (reads_predictions_) {
    const auto& fields = dataset_.fields();
    while (target_field_ < fields.size() && fields[target_field_].name != options_.target) ++target_field_;
    if (target_field_ == fields.size()) refuse("{} has no field {}", setup_.data, options_.target);
    setup_.target = fields[target_field_];
    setup_.prediction_name = options_.prediction;
    setup_.prediction = executor_->output(options_.prediction).shape();
    setup_.prediction[0] /= executor_->plan().options().micro_batch_size();
  }
  const auto bytes = reads_predictions_ ? executor_->output(options_.prediction).bytes() : 0;
  for (auto& b : batches_) b = std::make_unique<detail::EvaluatedBatch>(context_.device(), bytes);
  for (const auto& m : options_.metrics) m->reset(setup_);
}

void Evaluator::launch(const Batch& batch, std::int64_t micro_batch, detail::EvaluatedBatch& into, std::int64_t step) {
  ops::StepParams step_params;
  step_params.sample_offset = batch.sample_offset;
  step_params.inverse_samples = 1;  // sums over samples
  feed_->feed(batch, micro_batch);
  executor_->forward(step_params, micro_batch);
  if (micro_batch + 1 == micro_batches(batch)) executor_->carry_states();
  executor_->start_readback();
  const std::int64_t size = executor_->plan().options().micro_batch_size(), first = micro_batch * size;
  const std::span samples(batch.indices + first, static_cast<std::size_t>(std::min(size, batch.count - first)));
  const auto target_bytes = static_cast<std::size_t>(setup_.target.shape.elements()) * size_of(setup_.target.dtype);
  // The output is asked for anew: a larger plan of these parameters may have moved the arena.
  if (reads_predictions_)
    into.send(samples, step,
              static_cast<const char*>(batch.fields[target_field_]) + static_cast<std::size_t>(first) * target_bytes,
              samples.size() * target_bytes, executor_->output(options_.prediction));
  else
    into.send(samples, step, nullptr, 0, {});
  feed_->finish();
}

/// Those of a batch that have samples.
std::int64_t Evaluator::micro_batches(const Batch& batch) const {
  const std::int64_t size = executor_->plan().options().micro_batch_size();
  return (batch.count + size - 1) / size;
}

/// Waits for a batch, and returns its loss.
double Evaluator::retire(detail::EvaluatedBatch& batch) {
  MetricBatch b;
  b.loss = executor_->take_readback().loss;
  batch.wait();
  b.count = batch.count;
  b.indices = batch.indices.data();
  b.predictions = static_cast<const float*>(batch.predictions.get());
  b.targets = batch.predictions ? batch.targets.data() : nullptr;
  for (const auto& m : options_.metrics) m->update(b);
  return b.loss;
}

/// Repeats the evaluation up to a step, whose values another batch has overwritten meanwhile.
std::string Evaluator::first_non_finite(std::int64_t step) {
  loader_->start_epoch(0);
  executor_->reset_states();
  for (std::int64_t s = 0; s <= step; ++s) {
    const Batch* batch = loader_->next();
    for (std::int64_t m = 0; m < micro_batches(*batch); ++m) {
      feed_->feed(*batch, m);
      ops::StepParams step_params;
      step_params.sample_offset = batch->sample_offset;
      step_params.inverse_samples = 1;
      executor_->forward(step_params, m);
      if (s == step)
        if (auto culprit = executor_->first_non_finite(); !culprit.empty()) return culprit;
      context_.device().fence();
      feed_->finish();
    }
    executor_->carry_states();
  }
  return "";
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
  fail("evaluation on {} gives a loss of {} and a {} of {}; the first value that is not finite is in {}",
       dataset_.describe(), shown(e.loss), (options_.judge() ? options_.judge()->name() : "loss"), shown(e.metric),
       culprit.empty() ? "the metric itself" : culprit);
}

Evaluation Evaluator::run() {
  KEELSON_EXPECT(executor_);
  const Activity activity(Activity::Kind::evaluation);
  const auto begin = std::chrono::steady_clock::now();
  Evaluation e;
  e.samples = dataset_.size();
  ExactSum loss;
  std::optional<std::int64_t> bad_step;  // the first whose loss is not finite
  for (const auto& m : options_.metrics) m->reset(setup_);
  loader_->start_epoch(0);
  executor_->reset_states();
  const std::size_t ahead = context_.device().is_asynchronous() ? 1 : 0;
  std::deque<detail::EvaluatedBatch*> launched;
  const auto retire_but = [&](std::size_t left) {
    for (; launched.size() > left; launched.pop_front()) {
      const double of_batch = retire(*launched.front());
      loss.add(of_batch);
      if (!std::isfinite(of_batch) && !bad_step) bad_step = launched.front()->step;
    }
  };
  std::size_t turn = 0;
  for (std::int64_t step = 0; const Batch* batch = loader_->next(); ++step) {
    for (std::int64_t m = 0; m < micro_batches(*batch); ++m) {
      auto& into = *batches_[turn++ % std::size(batches_)];
      launch(*batch, m, into, step);
      launched.push_back(&into);
      retire_but(ahead);
    }
  }
  retire_but(0);
  const std::string culprit = bad_step ? first_non_finite(*bad_step) : "";
  ExactSum::reduce({&loss, 1}, communicator_);
  e.loss = e.metric = loss.value() / options_.units;
  for (const auto& m : options_.metrics) m->reduce(communicator_);
  if (const auto* judge = options_.judge()) {
    e.metric = judge->value();
    e.metric_values = judge->values();
  }
  require_finite(e, culprit);
  e.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return e;
}

}  // namespace keelson
