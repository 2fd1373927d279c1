#include "engine/train/evaluator.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "engine/base/error.hpp"
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

/// A sample number as two floats, each exact.
constexpr std::int64_t half = 1 << 20;

}  // namespace

std::vector<double> Evaluation::baseline(const MetricSpec& spec, const std::vector<double>& mean) const {
  std::vector<double> sums(mean.size());
  for (std::size_t i = 0; i < truth.size(); ++i)
    sums[i % mean.size()] += spec.error(i % mean.size(), mean[i % mean.size()], truth[i]);
  for (auto& s : sums) s /= static_cast<double>(samples);
  return sums;
}

std::vector<double> Evaluation::truth_mean() const {
  std::vector<double> mean(errors.size());
  for (std::size_t i = 0; i < truth.size(); ++i) mean[i % mean.size()] += truth[i] / static_cast<double>(samples);
  return mean;
}

Evaluator::Evaluator(const Graph& graph, Parameters& parameters, const Dataset& dataset, Communicator* communicator,
                     const EvaluatorOptions& options)
    : dataset_((compare_data(dataset, communicator), dataset)),
      communicator_(communicator),
      options_(options),
      context_(parameters.context()),
      plan_(graph, parameters, evaluation_plan(options)),
      loader_(dataset, evaluation_loader(options, communicator, context_.device())),
      feed_(dataset.fields(), plan_, context_) {
  if (options_.units == 0) options_.units = static_cast<double>(dataset.size() * options_.unit.per_sample);
  if (options_.metric.compares()) find_targets();
}

void Evaluator::find_targets() {
  const auto& fields = dataset_.fields();
  while (target_field_ < fields.size() && fields[target_field_].name != options_.target) ++target_field_;
  if (target_field_ == fields.size()) refuse("{} has no field {}", dataset_.describe(), options_.target);
  targets_ = fields[target_field_].shape.elements();
  const auto shape = plan_.output(options_.prediction).shape();
  rows_per_sample_ = shape[0] / options_.batch;
  if (shape.elements() != options_.batch * rows_per_sample_ * targets_)
    refuse("the network's {} is {}, but a sample of {} has {} targets", options_.prediction, to_string(shape),
           dataset_.describe(), targets_);
  if (options_.metric.kind == MetricSpec::Kind::relative &&
      static_cast<std::int64_t>(options_.metric.targets.size()) != targets_)
    refuse("{} targets are named, but the samples have {}", options_.metric.targets.size(), targets_);
  host_.resize(static_cast<std::size_t>(shape.elements()));
}

void Evaluator::collect(const Batch& batch, std::vector<float>& rows) {
  // Asked for anew: a larger plan of these parameters may have moved the arena.
  const Tensor prediction = plan_.output(options_.prediction);
  context_.device().copy_to_host(host_.data(), prediction.raw(), host_.size() * sizeof(float));
  const auto* truth = static_cast<const float*>(batch.fields[target_field_]);
  for (std::int64_t n = 0; n < batch.count; ++n) {
    const auto high = batch.indices[n] / half, low = batch.indices[n] % half;
    rows.push_back(static_cast<float>(high));
    rows.push_back(static_cast<float>(low));
    for (std::int64_t f = 0; f < targets_; ++f) {
      double sum = 0;
      for (std::int64_t r = 0; r < rows_per_sample_; ++r)
        sum += host_[static_cast<std::size_t>((n * rows_per_sample_ + r) * targets_ + f)];
      rows.push_back(static_cast<float>(sum / static_cast<double>(rows_per_sample_)));
    }
    for (std::int64_t f = 0; f < targets_; ++f) rows.push_back(truth[n * targets_ + f]);
  }
}

/// Errors of the predictions that all ranks have collected.
void Evaluator::compare(std::vector<float> rows, Evaluation& e) {
  if (communicator_) rows = communicator_->gather(rows, 0);
  const auto targets = static_cast<std::size_t>(targets_), width = 2 + 2 * targets;
  e.errors.assign(targets, 0.0);
  if (!communicator_ || communicator_->rank() == 0) {
    e.predicted.resize(static_cast<std::size_t>(e.samples) * targets);
    e.truth.resize(e.predicted.size());
    KEELSON_EXPECT(rows.size() == static_cast<std::size_t>(e.samples) * width);
    for (std::size_t i = 0; i < rows.size(); i += width) {
      const auto n = static_cast<std::size_t>(rows[i]) * half + static_cast<std::size_t>(rows[i + 1]);
      std::copy_n(&rows[i + 2], targets, &e.predicted[n * targets]);
      std::copy_n(&rows[i + 2 + targets], targets, &e.truth[n * targets]);
    }
    for (std::size_t i = 0; i < e.truth.size(); ++i)
      e.errors[i % targets] +=
          options_.metric.error(i % targets, e.predicted[i], e.truth[i]) / static_cast<double>(e.samples);
  }
  if (communicator_) communicator_->broadcast(e.errors.data(), e.errors.size() * sizeof(double), 0);
  for (double v : e.errors) e.metric += v / static_cast<double>(targets);
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
       dataset_.describe(), shown(e.loss), options_.metric.name(), shown(e.metric),
       culprit.empty() ? "the metric itself" : culprit);
}

Evaluation Evaluator::run() {
  const auto begin = std::chrono::steady_clock::now();
  const bool compares = options_.metric.compares();
  Evaluation e;
  e.samples = dataset_.size();
  std::vector<float> rows;
  std::string culprit;  // the first value that is not finite
  loader_.start_epoch(0);
  plan_.reset_states();
  ops::StepParams state;
  while (const Batch* batch = loader_.next()) {
    if (batch->count == 0) continue;
    feed_.feed(*batch);
    state.sample_offset = batch->sample_offset;
    state.inverse_samples = 1;  // sums over samples
    plan_.forward(state);
    plan_.carry_states();
    const double loss = plan_.loss();
    e.loss += loss;
    if (!std::isfinite(loss) && culprit.empty()) culprit = plan_.first_non_finite();
    feed_.finish();
    if (compares) collect(*batch, rows);
  }
  if (communicator_) communicator_->allreduce(&e.loss, 1, Reduction::sum);
  e.loss /= options_.units;
  if (compares)
    compare(std::move(rows), e);
  else
    e.metric = options_.metric.of_loss(e.loss);
  require_finite(e, culprit);
  e.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return e;
}

}  // namespace keelson
