#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "engine/base/activity.hpp"
#include "engine/base/error.hpp"
#include "engine/train/trainer.hpp"

namespace keelson {

double Trainer::epoch_fraction() const {
  const auto done = static_cast<double>(state_.step_in_epoch - state_.part_step);
  const auto steps = static_cast<double>(steps_of_epoch() - state_.part_step);
  return steps > 0 ? state_.part_position + done / steps * (1 - state_.part_position) : 1;
}

double Trainer::position() const { return static_cast<double>(state_.epoch) + epoch_fraction(); }

std::int64_t Trainer::steps_of_epoch() const {
  const std::int64_t left = state_.train_samples - state_.part_sample;
  return state_.part_step + (left + state_.global_batch - 1) / state_.global_batch;
}

std::int64_t Trainer::samples_in_epoch() const {
  const std::int64_t of_part = (state_.step_in_epoch - state_.part_step) * state_.global_batch;
  return std::min(state_.part_sample + of_part, state_.train_samples);
}

TrainResult Trainer::run(std::vector<TrainObserver*> observers, FirstRankObservers first_rank) {
  observe(std::move(observers));
  first_rank_ = std::move(first_rank);
  lead();
  begun_ = false;
  stop_.reset();
  begin();
  const auto finish_epoch = [this] {
    const bool best = end_epoch().best;
    if (best || (options_.checkpoint_epochs > 0 && state_.epoch % options_.checkpoint_epochs == 0))
      save_checkpoint(best);
  };
  // A run that was stopped between the last step of an epoch and its validation.
  if (epoch_done()) finish_epoch();
  while (step()) {
    if (stop_) break;  // by a vote: also where the epoch is done, the validation is for the run that continues
    if (epoch_done())
      finish_epoch();
    else if (options_.checkpoint_steps > 0 && state_.step % options_.checkpoint_steps == 0)
      save_checkpoint(false);
  }
  retire(0);
  if (saved_step_ != state_.step) save_checkpoint(false);
  wait();
  if (!lost_.empty()) compare_parameters();
  if (communicator_ && communicator_->size() > 1) together("the table of times", [&] { run_times_ = gather_times(); });
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
  waits_ = {};
  tell([&](auto& o) { o.on_start(state_, resumed_from_); });
}

RunTimes Trainer::gather_times() {
  if (!communicator_) fail("gather_times() needs a communicator");
  const TimeSplit& s = run_seconds_;
  const double communication = std::min(waits_.communication(communicator_->on_host()), s.exchange);
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
  stop_ = limit_reached();
  if (!stop_ && epoch_done()) {  // at a limit the epoch stays as it is, and its validation is still to come
    begin_next_epoch();
    stop_ = limit_reached();
  }
  if (stop_) {
    settle();
    return false;
  }
  enter_epoch();
  const Activity activity(Activity::Kind::step, state_.step + 1, state_.epoch + 1);
  Launched now;
  const Batch* batch = nullptr;
  Clock::time_point start, computed;
  together("a step", [&] {
    load_from_here();
    start = Clock::now();
    batch = loader_->next();
    KEELSON_EXPECT(batch);
    loader_at_ = {state_.epoch, state_.step_in_epoch + 1};
    now = compute(*batch, start);
    computed = Clock::now();
  });
  now.record.seconds.exchange += since(computed);  // until the ranks agreed
  apply(now, *batch, start);
  return true;
}

void Trainer::step(const Batch& given) {
  check(given);
  begin();
  if (epoch_done()) begin_next_epoch();
  enter_epoch();
  const Activity activity(Activity::Kind::step, state_.step + 1, state_.epoch + 1);
  Batch batch = given;
  if (!batch.weight) {
    weights_.assign(static_cast<std::size_t>(options_.batch), 0.0f);
    std::fill_n(weights_.begin(), batch.count, 1.0f);
    batch.weight = weights_.data();
  }
  const auto start = Clock::now();
  apply(compute(batch, start), batch, start);
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
    loader_->start_epoch(state_.epoch, samples_in_epoch());
  loader_at_.reset();
}

Trainer::Launched Trainer::compute(const Batch& batch, Clock::time_point start) {
  KEELSON_EXPECT(executor_);  // null after a network that could not be made
  vote_.begin(state_.step_in_epoch + 1 == steps_of_epoch() ? validation_seconds_ : 0, writer_.failed());
  Launched now;
  now.epoch = state_.epoch;
  now.samples = batch.global_count;
  TimeSplit& seconds = now.record.seconds;
  auto mark = start;
  const auto lap = [&](double& into) {
    const auto at = Clock::now();
    into += std::chrono::duration<double>(at - mark).count();
    mark = at;
  };
  lap(seconds.data);
  ++run_steps_;  // the first two warm up caches and threads
  if (options_.profiled_steps > 0 && run_steps_ == 3) executor_->set_profiling(true);
  if (run_steps_ == 3 + options_.profiled_steps) executor_->set_profiling(false);
  if (state_.step_in_epoch == 0) executor_->reset_states();
  batch_ = &batch;
  ops::StepParams& s = step_params_ = {};
  s.seed = options_.seed;
  s.step = static_cast<std::uint64_t>(state_.step);
  s.sample_offset = batch.sample_offset;
  // The mean over the ranks of what they compute alone is the mean over the samples of all of them.
  const int terms = local_ ? communicator_->size() : 1;
  s.inverse_samples = static_cast<float>(terms) / static_cast<float>(batch.global_count);
  s.learning_rate = static_cast<float>(last_rate_ = options_.schedule.at(position()));
  for (std::int64_t m = 0; m < executor_->micro_batches(); ++m) {
    if (m > 0) feed_->finish();
    feed_->feed(batch, m);
    lap(seconds.copy);
    executor_->forward(s, m);
    executor_->backward();
    lap(seconds.compute);
  }
  const double between = executor_->take_exchange_seconds();  // for sums that layers need, as batch normalization
  seconds.compute -= between;
  seconds.exchange += between;
  if (survives()) {  // the sums must be here before the ranks agree on them
    executor_->finish_exchange();
    if (runs_ahead_) parameters_.context().device().fence();
    take_vote();
  }
  if (!runs_ahead_) now.loss = executor_->loss();
  lap(seconds.exchange);
  return now;
}

void Trainer::apply(Launched now, const Batch& batch, Clock::time_point start) {
  auto mark = Clock::now();
  executor_->take_exchange_seconds();
  ++state_.step;
  ++state_.step_in_epoch;
  state_.samples += batch.global_count;
  now.record.step = state_.step;
  now.record.epoch = position();
  now.record.learning_rate = last_rate_;
  if (!runs_ahead_ && !local_)
    retire(now, {now.loss, executor_->plan().checks_gradients() ? executor_->loss_scale() : ops::LossScale()});
  executor_->update();
  executor_->carry_states();
  tell([&](auto& o) { o.on_batch(state_, batch); });
  if (runs_ahead_) {
    executor_->start_readback();
    if (!local_) retire(0);  // of the step before, while this one goes on
  }
  now.record.seconds.compute += since(mark);
  const double waited = executor_->take_exchange_seconds();  // for buckets, by the update
  now.record.seconds.compute -= waited;
  now.record.seconds.exchange += waited;
  if (synchronizer_) {
    mark = Clock::now();
    const TraceSpan span("exchange of parameters", "exchange");
    synchronizer_->after_update(state_.step);
    now.record.seconds.exchange += since(mark);
  }
  mark = Clock::now();
  feed_->finish();
  now.record.seconds.copy += since(mark);
  mark = Clock::now();
  if (!survives()) take_vote();
  now.record.seconds.exchange += since(mark);
  count_times(now, batch, start);
  finish_step(now);
}

void Trainer::count_times(Launched& now, const Batch& batch, Clock::time_point start) {
  const auto wall = since(start);
  vote_.step_took(wall);
  progress_->step_took(wall - now.record.seconds.data);
  now.record.rate = units(batch.global_count) / wall;
  epoch_seconds_ += now.record.seconds;
  run_seconds_ += now.record.seconds;
  waits_.add(now.record.seconds.exchange);
  epoch_wall_ += wall;
  epoch_samples_ += batch.global_count;
  state_.seconds = seconds_before_ + since(run_start_);
}

void Trainer::finish_step(const Launched& now) {
  if (runs_ahead_ || local_)
    launched_.push_back(now);
  else
    tell_step(now.record);
  if (local_) {
    post_losses(runs_ahead_ ? 1 : 0);
    retire(synchronizer_->slack() + (runs_ahead_ ? 1 : 0));
  }
  tell_checkpoint(writer_.take(false));
  if (decision_ == StopVote::Reason::failed)
    together("a checkpoint", [&] { finish_checkpoint(); });
  else if (decision_ != StopVote::Reason::none)
    stop_ = decision_ == StopVote::Reason::interrupted ? StopReason::interrupted : StopReason::time_limit;
}

void Trainer::take_vote() {
  const TraceSpan span("wait for the vote", "exchange");
  decision_ = vote_.end();
}

void Trainer::tell_step(const StepRecord& record) {
  last_step_ = record;
  tell([&](auto& o) { o.on_step(state_, record); });
}

void Trainer::retire(std::size_t left) {
  if (local_ && launched_.size() > left) post_losses(std::min<std::size_t>(left, runs_ahead_ ? 1 : 0));
  while (launched_.size() > left) {
    Launched done = launched_.front();
    launched_.erase(launched_.begin());
    retire(done, local_ ? Executor::StepResult{losses_->take(), {}} : executor_->take_readback());
    tell_step(done.record);
  }
}

void Trainer::post_losses(std::size_t left) {
  for (std::size_t i = 0; i + left < launched_.size(); ++i) {
    Launched& step = launched_[i];
    if (step.posted) continue;
    if (runs_ahead_) {
      const auto result = executor_->take_readback();
      // All ranks stop where a gradient of one of them is not finite.
      step.loss = result.loss_scale.skip ? std::numeric_limits<double>::quiet_NaN() : result.loss;
    }
    losses_->post(step.loss);
    step.posted = true;
  }
}

void Trainer::settle() {
  retire(0);
  if (options_.sync.kind == SyncMode::Kind::lag) executor_->finish_exchange();
  if (!synchronizer_) return;
  const TraceSpan span("exchange of parameters", "exchange");
  synchronizer_->make_equal();
  vote_.wait();
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
