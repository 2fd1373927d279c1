#include <algorithm>
#include <chrono>
#include <cmath>

#include "engine/base/activity.hpp"
#include "engine/base/error.hpp"
#include "engine/train/trainer.hpp"

namespace keelson {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

}  // namespace

double Trainer::position() const {
  return static_cast<double>(state_.epoch) +
         static_cast<double>(state_.step_in_epoch) / static_cast<double>(steps_per_epoch());
}

TrainResult Trainer::run(std::vector<TrainObserver*> observers) {
  observe(std::move(observers));
  begun_ = false;
  stop_.reset();
  begin();
  const auto finish_epoch = [this] {
    const bool best = end_epoch().best;
    if (best || (options_.checkpoint_epochs > 0 && state_.epoch % options_.checkpoint_epochs == 0))
      save_checkpoint(best);
  };
  // A run that was stopped between the last step of an epoch and its validation.
  if (epoch_done() && !limit_reached()) finish_epoch();
  while (step()) {
    if (stop_) break;  // by a vote: also where the epoch is done, the validation is for the run that continues
    if (epoch_done())
      finish_epoch();
    else if (options_.checkpoint_steps > 0 && state_.step % options_.checkpoint_steps == 0)
      save_checkpoint(false);
  }
  wait();
  if (saved_step_ != state_.step) save_checkpoint(false);
  if (communicator_ && communicator_->size() > 1) run_times_ = gather_times();
  tell([&](auto& o) { o.on_stop(state_, *stop_); });
  return {*stop_, state_};
}

void Trainer::begin() {
  if (begun_) return;
  begun_ = true;
  run_start_ = Clock::now();
  seconds_before_ = state_.seconds;
  epoch_seconds_ = {};
  epoch_wall_ = 0;
  epoch_samples_ = 0;
  run_seconds_ = {};
  run_validation_ = run_checkpoints_ = 0;
  steps_before_ = state_.step;
  waits_ = WaitSplit(communicator_);
  tell([&](auto& o) { o.on_start(state_, resumed_from_); });
}

RunTimes Trainer::gather_times() {
  if (!communicator_) fail("gather_times() needs a communicator");
  const TimeSplit& s = run_seconds_;
  const double communication = std::min(waits_.communication(), s.exchange);
  auto times = gather_run_times(
      {s.compute, communication, s.exchange - communication, s.data, s.copy, run_validation_, run_checkpoints_, 0},
      since(run_start_), communicator_->on_host());
  times.steps = state_.step - steps_before_;
  times.host_runs_ahead = runs_ahead_;
  return times;
}

std::optional<StopReason> Trainer::limit_reached() const {
  if (state_.epoch >= options_.epochs) return StopReason::epochs_done;
  if (options_.max_steps >= 0 && state_.step >= options_.max_steps) return StopReason::max_steps;
  return std::nullopt;
}

bool Trainer::step() {
  begin();
  if (stop_) return false;
  if (epoch_done()) begin_next_epoch();
  stop_ = limit_reached();
  if (stop_) return false;
  ask_for_change();
  const Activity activity(Activity::Kind::step, state_.step + 1, state_.epoch + 1);
  load_from_here();
  const auto start = Clock::now();
  const Batch* batch = loader_.next();
  KEELSON_EXPECT(batch);
  loader_at_ = {state_.epoch, state_.step_in_epoch + 1};
  train_on(*batch, start);
  return true;
}

void Trainer::step(const Batch& given) {
  check(given);
  begin();
  if (epoch_done()) begin_next_epoch();
  ask_for_change();
  const Activity activity(Activity::Kind::step, state_.step + 1, state_.epoch + 1);
  Batch batch = given;
  if (!batch.weight) {
    weights_.assign(static_cast<std::size_t>(options_.batch), 0.0f);
    std::fill_n(weights_.begin(), batch.count, 1.0f);
    batch.weight = weights_.data();
  }
  train_on(batch, Clock::now());
}

void Trainer::check(const Batch& batch) const {
  const auto fields = training_.fields().size();
  if (batch.fields.size() != fields)
    refuse("a batch of {} fields was given. Expected {}, as {} has them", batch.fields.size(), fields,
           training_.describe());
  if (batch.count < 0 || batch.count > options_.batch || batch.global_count < std::max<std::int64_t>(1, batch.count))
    refuse(
        "a batch of {} samples, {} of all ranks, was given. Expected at most {} per rank, and one of all ranks at "
        "least",
        batch.count, batch.global_count, options_.batch);
}

/// Lets the loader begin with the next step of the epoch, if it does not stand there.
void Trainer::load_from_here() {
  if (loader_at_ != std::pair(state_.epoch, state_.step_in_epoch))
    loader_.start_epoch(state_.epoch, state_.step_in_epoch);
  loader_at_.reset();
}

void Trainer::train_on(const Batch& batch, Clock::time_point start) {
  vote_.begin(state_.step_in_epoch + 1 == steps_per_epoch() ? validation_seconds_ : 0);
  const double waited = since(start);
  auto now = launch(batch);
  now.record.seconds.data = waited;
  const auto voted = Clock::now();
  const auto decision = [&] {
    const TraceSpan span("wait for the vote", "exchange");
    return vote_.end();
  }();
  now.record.seconds.exchange += since(voted);
  const auto wall = since(start);
  vote_.step_took(wall);
  now.record.rate = units(batch.global_count) / wall;
  epoch_seconds_ += now.record.seconds;
  run_seconds_ += now.record.seconds;
  waits_.add(now.record.seconds.exchange);
  epoch_wall_ += wall;
  epoch_samples_ += batch.global_count;
  state_.seconds = seconds_before_ + since(run_start_);
  if (runs_ahead_)
    launched_.push_back(now);
  else
    tell_step(now.record);
  if (decision != StopVote::Reason::none)
    stop_ = decision == StopVote::Reason::interrupted ? StopReason::interrupted : StopReason::time_limit;
}

Trainer::Launched Trainer::launch(const Batch& batch) {
  KEELSON_EXPECT(executor_);  // null after a network that could not be made
  Launched now;
  now.epoch = state_.epoch;
  now.samples = batch.global_count;
  auto mark = Clock::now();
  const auto lap = [&](double& into) {
    const auto at = Clock::now();
    into += std::chrono::duration<double>(at - mark).count();
    mark = at;
  };
  TimeSplit& seconds = now.record.seconds;
  ++run_steps_;  // the first two warm up caches and threads
  if (options_.profiled_steps > 0 && run_steps_ == 3) executor_->set_profiling(true);
  if (run_steps_ == 3 + options_.profiled_steps) executor_->set_profiling(false);
  if (state_.step_in_epoch == 0) executor_->reset_states();
  feed_->feed(batch);
  lap(seconds.copy);
  ops::StepParams s;
  s.seed = options_.seed;
  s.step = static_cast<std::uint64_t>(state_.step);
  s.sample_offset = batch.sample_offset;
  s.inverse_samples = 1.0f / static_cast<float>(batch.global_count);
  s.learning_rate = static_cast<float>(last_rate_ = options_.schedule.at(position()));
  executor_->forward(s);
  executor_->backward();
  lap(seconds.compute);
  const double between = executor_->take_exchange_seconds();  // for sums that layers need, as batch normalization
  seconds.compute -= between;
  seconds.exchange += between;
  const double loss = runs_ahead_ ? 0 : executor_->loss();
  lap(seconds.exchange);
  executor_->take_exchange_seconds();
  ++state_.step;
  ++state_.step_in_epoch;
  state_.samples += batch.global_count;
  now.record.step = state_.step;
  now.record.epoch = position();
  now.record.learning_rate = last_rate_;
  if (!runs_ahead_)
    retire(now, {loss, executor_->plan().checks_gradients() ? executor_->loss_scale() : ops::LossScale()});
  executor_->update();
  executor_->carry_states();
  tell([&](auto& o) { o.on_batch(state_, batch); });
  if (runs_ahead_) {
    executor_->start_readback();
    retire(0);  // of the step before, while this one goes on
  }
  lap(seconds.compute);
  const double waited = executor_->take_exchange_seconds();  // for buckets, by the update
  seconds.compute -= waited;
  seconds.exchange += waited;
  feed_->finish();
  lap(seconds.copy);
  return now;
}

void Trainer::tell_step(const StepRecord& record) {
  last_step_ = record;
  tell([&](auto& o) { o.on_step(state_, record); });
}

void Trainer::retire(std::size_t left) {
  while (launched_.size() > left) {
    Launched done = launched_.front();
    launched_.erase(launched_.begin());
    retire(done, executor_->take_readback());
    tell_step(done.record);
  }
}

void Trainer::retire(Launched& step, const Executor::StepResult& result) {
  step.record.loss = result.loss / units(1);
  if (!std::isfinite(result.loss))
    stop_for(step, fmt::format("the loss became {}", std::isnan(result.loss) ? "NaN"
                                                     : result.loss > 0       ? "infinite"
                                                                             : "minus infinite"));
  state_.skipped_steps = result.loss_scale.skipped;
  if (result.loss_scale.skip && result.loss_scale.unscale >= 1) stop_for(step, "gradients became infinite or NaN");
  state_.loss_sum += result.loss * static_cast<double>(step.samples);
  state_.loss_samples += step.samples;
}

}  // namespace keelson
