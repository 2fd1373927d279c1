#include <algorithm>
#include <chrono>
#include <cmath>

#include "engine/base/ranks.hpp"
#include "engine/train/trainer.hpp"

namespace keelson {

void Trainer::count_targets(const Batch& batch) {
  const auto& fields = training_.fields();
  const auto targets = state_.target_sum.size();
  for (std::size_t f = 0; f < fields.size(); ++f) {
    if (fields[f].name != options_.evaluation.target || fields[f].dtype != DType::f32) continue;
    const auto* y = static_cast<const float*>(batch.fields[f]);
    for (std::size_t i = 0; i < static_cast<std::size_t>(batch.count) * targets; ++i)
      seen_targets_[i % targets] += y[i];
    seen_targets_[targets] += static_cast<double>(batch.count);
  }
}

void Trainer::merge_targets() {
  if (communicator_) communicator_->allreduce(seen_targets_.data(), seen_targets_.size(), Reduction::sum);
  for (std::size_t t = 0; t < state_.target_sum.size(); ++t) state_.target_sum[t] += seen_targets_[t];
  state_.target_samples += static_cast<std::int64_t>(seen_targets_.back());
  std::fill(seen_targets_.begin(), seen_targets_.end(), 0.0);
}

void Trainer::finish_epoch() {
  merge_targets();
  std::optional<Evaluation> validation;
  if (evaluator_) {
    tell([&](auto& o) { o.on_validation_start(state_); });
    validation = evaluator_->run();
    validation_seconds_ = validation->seconds;
    state_.metric = validation->metric;
    state_.validation_loss = validation->loss;
  }
  EpochRecord record;
  record.train_loss = state_.loss_sum / units(state_.loss_samples);
  if (validation) {
    record.validation_loss = validation->loss;
    record.metric = validation->metric;
    record.metric_values = validation->metric_values;
    record.validation_seconds = validation->seconds;
  }
  record.learning_rate = last_rate_;
  record.rate = epoch_wall_ > 0 ? units(epoch_samples_) / epoch_wall_ : 0;
  record.seconds = epoch_seconds_;
  ++state_.epoch;
  state_.step_in_epoch = 0;
  state_.loss_sum = 0;
  state_.loss_samples = 0;
  state_.seconds =
      seconds_before_ + std::chrono::duration<double>(std::chrono::steady_clock::now() - run_start_).count();
  record.epoch = state_.epoch;
  record.step = state_.step;
  const bool best = validation && (state_.best_epoch < 0 || better(state_.metric, state_.best_metric));
  if (best) {
    state_.best_metric = state_.metric;
    state_.best_epoch = state_.epoch;
  }
  tell([&](auto& o) { o.on_epoch(state_, record, validation ? &*validation : nullptr); });
  if (best || (options_.checkpoint_epochs > 0 && state_.epoch % options_.checkpoint_epochs == 0)) save(best);
}

void Trainer::gather_states() {
  if (state_.step_in_epoch == 0) return;  // an epoch begins with zeros
  for (const auto& name : plan_.states()) {
    const Tensor t = plan_.input(name);
    std::vector<float> mine(static_cast<std::size_t>(t.elements()));
    parameters_.context().device().copy_to_host(mine.data(), t.raw(), t.bytes());
    auto all = communicator_ ? communicator_->gather(mine, 0) : mine;
    if (!is_root()) continue;
    Shape shape = t.shape();
    shape[0] = state_.global_batch;
    state_.carried[name] = {shape, std::move(all)};
  }
}

void Trainer::restore_states(const RunState& loaded, const std::filesystem::path& checkpoint) {
  if (loaded.step_in_epoch == 0) return;
  for (const auto& name : plan_.states()) {
    const Tensor t = plan_.input(name);
    const auto found = loaded.carried.find(name);
    Shape wanted = t.shape();
    wanted[0] = state_.global_batch;
    if (found == loaded.carried.end() || !(found->second.shape == wanted))
      refuse("{}: its recurrent state {} is {}, expected {}: resume with the network and batch of that run",
             checkpoint.string(), name, found == loaded.carried.end() ? "missing" : to_string(found->second.shape),
             to_string(wanted));
    const std::int64_t first = (communicator_ ? communicator_->rank() : 0) * t.elements();
    parameters_.context().device().copy_from_host(t.raw(), found->second.values.data() + first, t.bytes());
  }
}

void Trainer::save(bool best) {
  retire(0);
  saved_step_ = state_.step;
  if (options_.checkpoints.empty()) return;
  if (plan_.checks_gradients()) {
    const auto scale = plan_.loss_scale();
    state_.loss_scale = scale.scale;
    state_.good_steps = scale.good_steps;
    state_.skipped_steps = scale.skipped;
  }
  merge_targets();
  last_saved_ = folder_.path_of(state_.step);
  const auto begin = std::chrono::steady_clock::now();
  gather_states();
  on_first_rank(communicator_, [&] {
    if (options_.before_checkpoint) options_.before_checkpoint();
    const auto path = folder_.write(state_, parameters_, moments_);
    if (best) folder_.mark_best(path);
    state_.carried.clear();
    tell([&](auto& o) { o.on_checkpoint(state_, path, best); });
  });
  vote_.reserve(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}

void Trainer::stop_for(const Launched& step, const std::string& what) {
  auto culprit = plan_.first_non_finite();
  if (communicator_) {
    const auto all = communicator_->allgather(culprit);
    culprit.clear();
    for (std::size_t r = 0; r < all.size() && culprit.empty(); ++r)
      if (!all[r].empty()) culprit = fmt::format("{} on rank {}", all[r], r);
  }
  fail(
      "{} in step {} (epoch {}); the first value that is not finite is in {}. {} Try a smaller "
      "learning rate, a longer "
      "warm-up or --clip-norm",
      what, step.record.step, step.epoch + 1, culprit.empty() ? "the loss itself" : culprit,
      last_saved_.empty() ? "No checkpoint was written."
                          : fmt::format("The last checkpoint is {}.", last_saved_.string()));
}

}  // namespace keelson
