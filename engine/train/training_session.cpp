#include "engine/train/training_session.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/base/trace.hpp"
#include "engine/train/noise_scale.hpp"
#include "engine/train/training_grid.hpp"

namespace keelson {
namespace {

/// The sum over the micro-batches, of `size` samples each, of the squares of their weights.
double squared_weights(const Batch& batch, std::int64_t size) {
  double squares = 0;
  for (std::int64_t first = 0; first < batch.count; first += size) {
    double weight = 0;
    for (std::int64_t i = first; i < std::min(first + size, batch.count); ++i) weight += batch.weight[i];
    squares += weight * weight;
  }
  return squares;
}

}  // namespace

TrainingSession::TrainingSession(const Graph& graph, Parameters& parameters, const TrainingBatches& batches,
                                 const TrainingRanks& ranks, const TrainerOptions& options)
    : graph_(&graph),
      parameters_(parameters),
      batches_(batches),
      ranks_(ranks),
      options_(options),
      apart_(works_apart(0)) {
  regroup();
}

void TrainingSession::make() {
  release();
  rows_ = {};
  set_own_shapes(parameters_, *options_.optimizer);  // ranks that wait make no plan
  if (ranks_.waits()) return;
  PlanOptions plan = options_.plan();
  plan.grid = grid_ && !apart_ ? &*grid_ : nullptr;
  plan.peers = ranks_.training();
  if (ranks_.training() && ranks_.training()->survives_losses()) plan.whole_parameters = true;
  // The first plan refuses a step of a single part. Where losses of ranks leave one part, nothing is measured any more.
  if (was_made_ && (ranks_.training() ? ranks_.count() : 1) * plan.micro_batches() < 2) plan.noise_scale = false;
  SampleDecoding decoding = batches_.decoding();
  decoding.rows = rows_ = rows_of_fields(*graph_, plan, batches_.data());
  network_.emplace(*graph_, parameters_, plan, batches_.data(), decoding);
  was_made_ = true;
  passes_ = network_->executor.plan().passes();
  if (apart_) network_->executor.set_progress(ranks_.training());
  if (loss_scale_) network_->executor.set_loss_scale(*loss_scale_);
  steps_ = 0;  // the calls of the new plan are timed, too
  make_synchronizer();
}

void TrainingSession::make_synchronizer() {
  synchronizer_.reset();
  if (apart_)
    synchronizer_ = keelson::make_synchronizer(parameters_, *ranks_.training(),
                                               {options_.sync, options_.seed, options_.exchange.bucket_bytes});
}

void TrainingSession::release() {
  if (!network_) return;
  parameters_.context().device().fence();
  const auto scale = network_->executor.loss_scale();
  loss_scale_ = {.scale = scale.scale, .good_steps = scale.good_steps, .skipped = scale.skipped};
  synchronizer_.reset();
  network_.reset();
}

void TrainingSession::release_group() {
  release();
  grid_.reset();
}

void TrainingSession::replace_network(Graph graph, Parameters parameters) {
  release();  // before the memory of the old parameters goes, which goes before the new plan needs room
  parameters_ = std::move(parameters);
  own_graph_ = std::make_unique<Graph>(std::move(graph));
  graph_ = own_graph_.get();
}

void TrainingSession::regroup() {
  release_group();
  if (ranks_.training())
    grid_.emplace(*ranks_.training(), training_extents(ranks_.training()->size(), options_.replica));
  make();
}

void TrainingSession::set_apart(bool apart) {
  release();
  apart_ = apart;
  make();
}

bool TrainingSession::works_apart(std::int64_t epochs) const {
  return ranks_.training() && ranks_.count() > 1 && options_.sync.updates_locally(epochs);
}

bool TrainingSession::has_states() const {
  return std::ranges::any_of(graph_->nodes(), [](const Graph::Node& n) { return n.is_state; });
}

Executor& TrainingSession::executor() {
  KEELSON_EXPECT(network_);
  return network_->executor;
}

const Executor& TrainingSession::executor() const {
  KEELSON_EXPECT(network_);
  return network_->executor;
}

void TrainingSession::compute_gradients(const Batch& batch, ops::StepParams params, bool first_of_epoch,
                                        Stopwatch& watch, TimeSplit& seconds) {
  Executor& executor = this->executor();
  ++steps_;  // the first two warm up caches and threads
  if (options_.profiled_steps > 0 && steps_ == 3) executor.set_profiling(true);
  if (steps_ == 3 + options_.profiled_steps) executor.set_profiling(false);
  if (first_of_epoch) executor.reset_states();
  batch_ = &batch;
  params.sample_offset = batch.sample_offset;
  // The mean over the ranks of what they compute alone is the mean over the samples of all of them.
  const int terms = apart_ ? ranks_.count() : 1;
  params.inverse_samples = batch.inverse_weight(terms);
  step_params_ = params;
  const bool can_measure = executor.plan().options().noise_scale;
  measured_ = can_measure && (static_cast<std::int64_t>(params.step) + 1) % options_.noise_scale == 0;
  if (can_measure) {
    const std::int64_t size = executor.plan().options().micro_batch_size();
    executor.measure_gradients(measured_ ? std::optional(squared_weights(batch, size)) : std::nullopt);
  }
  for (const Pass& pass : passes_) {
    if (!pass.backward) {
      if (pass.micro_batch > 0) network_->input.finish();
      network_->input.feed(batch, pass.micro_batch);
      seconds.copy += watch.lap();
      executor.forward(params, pass.micro_batch);
    } else {
      executor.backward(pass.micro_batch);
    }
    seconds.compute += watch.lap();
  }
  const double between = executor.take_exchange_seconds();  // for sums that layers need, as batch normalization
  seconds.compute -= between;
  seconds.exchange += between;
}

void TrainingSession::update() {
  if (ranks_.waits()) return;
  executor().update();
  executor().carry_states();
}

std::optional<NoiseScale> TrainingSession::measured_noise() const {
  if (!measured_ || ranks_.waits()) return std::nullopt;
  return keelson::measured_noise(executor().gradient_squares(), batch_->global_count, batch_->total_weight());
}

double TrainingSession::take_exchange_seconds() { return ranks_.waits() ? 0 : executor().take_exchange_seconds(); }

ops::LossScale TrainingSession::loss_scale() const {
  if (ranks_.waits()) return loss_scale_.value_or(ops::LossScale());
  return executor().plan().checks_gradients() ? executor().loss_scale() : ops::LossScale();
}

void TrainingSession::set_loss_scale(const ops::LossScale& scale) {
  loss_scale_ = scale;
  if (network_) executor().set_loss_scale(scale);
}

void TrainingSession::exchange_parameters(std::int64_t step) {
  if (!synchronizer_) return;
  const TraceSpan span("exchange of parameters", "exchange");
  synchronizer_->after_update(step);
}

void TrainingSession::finish_input() {
  if (!ranks_.waits()) network_->input.finish();
  batch_ = nullptr;
}

void TrainingSession::make_equal() {
  if (options_.sync.kind == SyncMode::Kind::lag || options_.exchange.shards != OptimizerShards::none)
    executor().finish_exchange();
  if (!synchronizer_) return;
  const TraceSpan span("exchange of parameters", "exchange");
  synchronizer_->make_equal();
}

std::string TrainingSession::first_non_finite() {
  if (ranks_.waits()) return "";
  Executor& executor = this->executor();
  const bool batch_is_there = batch_ != nullptr && !parameters_.context().device().is_asynchronous();
  const auto find = [&](std::int64_t m) {
    return executor.first_non_finite(batch_is_there
                                         ? batch_->micro_batch(m, executor.plan().options().micro_batch_size())
                                         : std::span<const std::int64_t>());
  };
  auto culprit = find(executor.micro_batches() - 1);  // of the last micro-batch
  // All ranks of a replica repeat the same passes, since these may communicate.
  for (std::int64_t m = 0; batch_is_there && m + 1 < executor.micro_batches(); ++m) {
    network_->input.feed(*batch_, m);
    executor.forward(step_params_, m);
    const auto earlier = find(m);
    if (culprit.empty()) culprit = earlier;
  }
  return culprit;
}

void TrainingSession::store(RunState& state, bool on_every_rank) const {
  if (ranks_.waits() ? options_.precision == Precision::fp16 : executor().plan().checks_gradients()) {
    const auto scale = loss_scale();
    state.loss_scale = scale.scale;
    state.good_steps = scale.good_steps;
    state.skipped_steps = scale.skipped;
  }
  // Recurrent states begin an epoch with zeros. A network with states goes on with all ranks alone.
  if (state.step_in_epoch == 0 || ranks_.waits()) return;
  const auto own = executor().states();  // of this rank's stage
  for (const Graph::Node& node : graph_->nodes()) {
    if (!node.is_state) continue;
    const std::string& name = node.name;
    const Tensor t = executor().input(name);
    std::vector<float> mine;
    // Other ranks along these axes have the same.
    const bool first = !grid_ || grid_->number({ProcessGrid::Axis::space, ProcessGrid::Axis::channel}) == 0;
    if (first && std::ranges::find(own, name) != own.end()) {
      mine.resize(static_cast<std::size_t>(t.elements()));
      parameters_.context().device().copy_to_host(mine.data(), t.raw(), t.bytes());
    }
    Communicator* ranks = ranks_.training();
    auto all = ranks ? ranks->gather(mine, 0) : mine;
    Shape shape = t.shape();
    shape[0] = state.global_batch;
    if (on_every_rank) {
      all.resize(static_cast<std::size_t>(shape.elements()));
      ranks->broadcast(all.data(), all.size() * sizeof(float), 0);
    } else if (ranks && ranks->rank() != 0) {
      continue;
    }
    state.carried[name] = {shape, std::move(all)};
  }
}

void TrainingSession::restore(const RunState& state) {
  if (options_.precision == Precision::fp16)
    executor().set_loss_scale({.scale = static_cast<float>(state.loss_scale),
                               .good_steps = static_cast<std::int32_t>(state.good_steps),
                               .skipped = static_cast<std::int32_t>(state.skipped_steps)});
  if (state.step_in_epoch == 0) return;
  for (const auto& name : executor().states()) {
    const Tensor t = executor().input(name);
    const auto& values = state.carried.at(name).values;
    const std::int64_t first = (grid_ ? grid_->coordinate(ProcessGrid::Axis::data) : 0) * t.elements();
    parameters_.context().device().copy_from_host(t.raw(), values.data() + first, t.bytes());
  }
}

}  // namespace keelson
