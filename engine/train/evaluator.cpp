#include "engine/train/evaluator.hpp"

#include <chrono>
#include <cmath>

#include "engine/base/error.hpp"
#include "engine/base/exact_sum.hpp"
#include "engine/base/ranks.hpp"

namespace keelson {
namespace {

PlanOptions evaluation_plan(const EvaluatorOptions& o) {
  PlanOptions p;
  p.batch = o.batch;
  p.training = false;
  p.precision = o.precision;
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
    : dataset_((compare_data(dataset, communicator), dataset)),
      communicator_(communicator),
      options_(options),
      context_(parameters.context()),
      executor_(std::make_unique<Executor>(graph, parameters, evaluation_plan(options))),
      loader_(dataset, evaluation_loader(options, communicator, context_.device())) {
  feed_.emplace(dataset.fields(), *executor_, context_);
  if (options_.units == 0) options_.units = static_cast<double>(dataset.size() * options_.unit.per_sample);
  prepare_metrics();
}

const Executor& Evaluator::executor() const {
  KEELSON_EXPECT(executor_);
  return *executor_;
}

void Evaluator::release_network() {
  feed_.reset();
  executor_.reset();
}

void Evaluator::set_network(const Graph& graph, Parameters& parameters) {
  KEELSON_EXPECT(&parameters.context() == &context_);
  release_network();
  executor_ = std::make_unique<Executor>(graph, parameters, evaluation_plan(options_));
  feed_.emplace(dataset_.fields(), *executor_, context_);
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
    setup_.prediction[0] /= options_.batch;
    host_.resize(static_cast<std::size_t>(options_.batch * setup_.prediction.elements()));
  }
  for (const auto& m : options_.metrics) m->reset(setup_);
}

void Evaluator::update_metrics(const Batch& batch, double loss) {
  MetricBatch b;
  b.count = batch.count;
  b.indices = batch.indices;
  b.loss = loss;
  if (reads_predictions_) {
    // Asked for anew: a larger plan of these parameters may have moved the arena.
    const Tensor prediction = executor_->output(options_.prediction);
    context_.device().copy_to_host(host_.data(), prediction.raw(), host_.size() * sizeof(float));
    b.predictions = host_.data();
    b.targets = batch.fields[target_field_];
  }
  for (const auto& m : options_.metrics) m->update(b);
}

void Evaluator::require_finite(const Evaluation& e, std::string culprit) const {
  if (std::isfinite(e.loss) && std::isfinite(e.metric)) return;
  if (communicator_) {
    const auto all = communicator_->allgather(culprit);
    for (std::size_t r = 0; r < all.size() && culprit.empty(); ++r)
      if (!all[r].empty()) culprit = fmt::format("{} on rank {}", all[r], r);
  }
  const auto shown = [](double v) { return std::isnan(v) ? std::string("NaN") : fmt::format("{}", v); };
  fail("evaluation on {} gives a loss of {} and a {} of {}; the first value that is not finite is in {}",
       dataset_.describe(), shown(e.loss), (options_.judge() ? options_.judge()->name() : "loss"), shown(e.metric),
       culprit.empty() ? "the metric itself" : culprit);
}

Evaluation Evaluator::run() {
  KEELSON_EXPECT(executor_);
  const auto begin = std::chrono::steady_clock::now();
  Evaluation e;
  e.samples = dataset_.size();
  ExactSum loss;
  std::string culprit;  // the first value that is not finite
  for (const auto& m : options_.metrics) m->reset(setup_);
  loader_.start_epoch(0);
  executor_->reset_states();
  ops::StepParams step_params;
  while (const Batch* batch = loader_.next()) {
    if (batch->count == 0) continue;
    feed_->feed(*batch);
    step_params.sample_offset = batch->sample_offset;
    step_params.inverse_samples = 1;  // sums over samples
    executor_->forward(step_params);
    executor_->carry_states();
    const double batch_loss = executor_->loss();
    loss.add(batch_loss);
    if (!std::isfinite(batch_loss) && culprit.empty()) culprit = executor_->first_non_finite();
    feed_->finish();
    update_metrics(*batch, batch_loss);
  }
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
