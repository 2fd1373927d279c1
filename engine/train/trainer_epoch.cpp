#include <algorithm>
#include <chrono>
#include <cmath>

#include "engine/base/activity.hpp"
#include "engine/base/ranks.hpp"
#include "engine/train/trainer.hpp"

namespace keelson {

Evaluation Trainer::validate() {
  if (!evaluator_) fail("validate() was called on a trainer without validation data: give the trainer a data set");
  settle();
  const Activity activity(Activity::Kind::validation, state_.step, state_.epoch + 1);
  const auto begin = std::chrono::steady_clock::now();
  Evaluation validation;
  together("a validation", [&] {
    tell([&](auto& o) { o.on_validation_start(state_); });
    validation = evaluator_->run();
  });
  validation_seconds_ = validation.seconds;
  run_validation_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return validation;
}

void Trainer::begin_next_epoch() {
  settle();
  ++state_.epoch;
  state_.step_in_epoch = 0;
  state_.part_step = state_.part_sample = 0;
  state_.part_position = 0;
  state_.loss_sum = 0;
  state_.loss_samples = 0;
  epoch_seconds_ = {};
  epoch_wall_ = 0;
  epoch_samples_ = 0;
}

void Trainer::enter_epoch() {
  leave_abandoned();
  ask_for_change();
  adopt_mode(state_.epoch);
  if (state_.step_in_epoch == 0) tell([&](auto& o) { o.on_epoch_start(state_); });
}

EpochRecord Trainer::end_epoch() {
  if (!epoch_done())
    fail("end_epoch() was called after {} of the {} steps of an epoch: call it where epoch_done()",
         state_.step_in_epoch, steps_of_epoch());
  begin();
  leave_abandoned();
  settle();
  EpochRecord record;
  std::optional<Evaluation> validation;
  if (evaluator_) {
    validation = validate();
    record.best = state_.best_epoch < 0 || better(validation->metric, state_.best_metric);
    record.validation_loss = state_.validation_loss = validation->loss;
    record.metric = state_.metric = validation->metric;
    record.metric_values = validation->metric_values;
    record.validation_seconds = validation->seconds;
  }
  record.train_loss = state_.loss_sum / units(state_.loss_samples);
  record.learning_rate = last_rate_;
  record.rate = epoch_wall_ > 0 ? units(epoch_samples_) / epoch_wall_ : 0;
  record.seconds = epoch_seconds_;
  begin_next_epoch();
  saved_step_ = -1;  // a checkpoint of before does not know of the validation
  state_.seconds =
      seconds_before_ + std::chrono::duration<double>(std::chrono::steady_clock::now() - run_start_).count();
  record.epoch = state_.epoch;
  record.step = state_.step;
  if (record.best) {
    state_.best_metric = state_.metric;
    state_.best_epoch = state_.epoch;
  }
  last_epoch_ = record;
  tell([&](auto& o) { o.on_epoch(state_, record, validation ? &*validation : nullptr); });
  if (options_.target > 0 && validation && !better(options_.target, state_.metric)) stop_ = StopReason::target_reached;
  return record;
}

std::string Trainer::first_non_finite() {
  auto culprit = executor_->first_non_finite();  // of the last micro-batch
  // Where the host runs ahead, the batch is gone.
  for (std::int64_t m = 0; culprit.empty() && !runs_ahead_ && m + 1 < executor_->micro_batches(); ++m) {
    feed_->feed(*batch_, m);
    executor_->forward(step_params_, m);
    culprit = executor_->first_non_finite();
  }
  return culprit;
}

void Trainer::stop_for(const Launched& step, const std::string& what) {
  auto culprit = first_non_finite();
  await_writer();  // the message names the checkpoint
  if (!culprit.empty() && communicator_) culprit += fmt::format(" on rank {}", communicator_->number());
  if (communicator_) {
    const auto all = communicator_->allgather(culprit);
    culprit.clear();
    // An input or a parameter is the cause of what layers hold, on other ranks, too, where layers communicate.
    for (const char* kind : {"input", "parameter", "layer"})
      for (std::size_t r = 0; r < all.size() && culprit.empty(); ++r)
        if (all[r].starts_with(kind)) culprit = all[r];
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
