#include "engine/train/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "engine/base/counted.hpp"
#include "engine/base/fnv1a.hpp"
#include "engine/base/ranks.hpp"

namespace keelson {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

int ranks_of(const Communicator* c) { return c ? c->size() : 1; }

PlanOptions training_plan(const TrainerOptions& o, Communicator* c) {
  PlanOptions p;
  p.batch = o.batch;
  p.precision = o.precision;
  p.optimizer = &o.optimizer;
  p.communicator = c;
  return p;
}

LoaderOptions training_loader(const TrainerOptions& o, const Communicator* c, Device& device) {
  LoaderOptions l;
  l.batch = o.batch;
  l.rank = c ? c->rank() : 0;
  l.ranks = ranks_of(c);
  l.seed = o.seed;
  l.shuffle = o.shuffle;
  l.augment = o.augment;
  l.threads = o.loader_threads;
  l.prefetch = o.prefetch;
  l.cpus = o.cpus;
  l.allocate = batch_memory(device);
  return l;
}

/// Without the paths, which may differ.
std::string describe_data(const Dataset& data) {
  return fmt::format("{} [{:016x}]", counted(data.size(), "sample"), data.digest());
}

/// What must be alike on all ranks for training to mean anything.
void compare_runs(const Dataset& training, const Dataset* validation, const TrainerOptions& o,
                  Communicator* communicator) {
  if (ranks_of(communicator) == 1) return;
  compare_values(
      *communicator,
      {{"training data", describe_data(training)}, {"validation data", validation ? describe_data(*validation) : ""}},
      "data", "let all ranks see the same files");
  std::map<std::string, std::string> values{
      {"network", o.network},
      {"batch", std::to_string(o.batch)},
      {"epochs", std::to_string(o.epochs)},
      {"step limit", std::to_string(o.max_steps)},
      {"time limit", fmt::format("{}", o.time_limit)},
      {"target", fmt::format("{}", o.target)},
      {"seed", std::to_string(o.seed)},
      {"shuffling", o.shuffle ? "on" : "off"},
      {"augmentation", o.augment ? "on" : "off"},
      {"precision", std::string(to_string(o.precision))},
      {"optimizer", o.optimizer.to_string()},
      {"learning rate", o.schedule.to_string()},
      {"checkpoints",
       fmt::format("every {}, every {}", counted(o.checkpoint_epochs, "epoch"), counted(o.checkpoint_steps, "step"))}};
  for (const auto& [name, text] : o.texts) values[name] = fmt::format("{:016x}", fnv1a(text.data(), text.size()));
  compare_values(*communicator, values, "options");
}

/// Ranks on other processors choose other kernels, and sums that should be equal drift apart: better to stop at once.
void compare_plans(const Plan& plan, Communicator* communicator) {
  if (ranks_of(communicator) == 1) return;
  compare_hash(*communicator, plan.hash(), "plans",
               "start all ranks with the same options, build and environment, on processors of one kind, or give "
               "KEELSON_BACKEND=kokkos");
}

}  // namespace

std::string to_string(StopReason reason) {
  switch (reason) {
    case StopReason::epochs_done:
      return "all epochs done";
    case StopReason::max_steps:
      return "step limit reached";
    case StopReason::target_reached:
      return "target reached";
    case StopReason::time_limit:
      return "time limit";
    case StopReason::interrupted:
      return "interrupted";
  }
  return "";
}

void Trainer::check_sizes(std::int64_t samples, std::int64_t batch, int ranks, const std::string& data) {
  if (batch < 1) refuse("a batch of {} was asked for; it must hold at least one sample per rank", batch);
  if (samples < ranks)
    refuse("{} for {} ({}): start fewer ranks or give more data", counted(ranks, "rank"),
           counted(samples, "training sample"), data);
  if (samples < batch * ranks)
    refuse(
        "a batch of {} ({} per rank on {}) is larger than the training data ({}): give a smaller batch or more "
        "data",
        batch * ranks, batch, counted(ranks, "rank"), data);
}

Trainer::Trainer(const Graph& graph, Parameters& parameters, const Dataset& training, const Dataset* validation,
                 Communicator* communicator, TrainerOptions options)
    : parameters_(parameters),
      training_((compare_runs(training, validation, options, communicator),
                 check_sizes(training.size(), options.batch, ranks_of(communicator), training.describe()), training)),
      communicator_(communicator),
      options_(std::move(options)),
      moments_(moment_names(options_.optimizer)),
      plan_(graph, parameters, training_plan(options_, communicator)),
      loader_(training, training_loader(options_, communicator, parameters.context().device())),
      feed_(training.fields(), plan_, parameters.context()),
      folder_(options_.checkpoints, options_.keep),
      vote_(communicator, options_.start, options_.time_limit, options_.interrupted),
      runs_ahead_(!parameters.context().device().host_accessible()) {
  compare_plans(plan_, communicator);
  if (validation) {
    auto e = options_.evaluation;
    e.batch = options_.batch;
    e.precision = options_.precision;
    e.threads = options_.loader_threads;
    e.prefetch = options_.prefetch;
    e.cpus = options_.cpus;
    e.unit = options_.unit;
    evaluator_ = std::make_unique<Evaluator>(graph, parameters, *validation, communicator, e);
  }
  state_.network = options_.network;
  state_.config = options_.config;
  state_.texts = options_.texts;
  state_.seed = options_.seed;
  state_.global_batch = options_.batch * ranks_of(communicator);
  state_.train_samples = training.size();
  state_.world_size = ranks_of(communicator);
  for (const auto& f : training.fields())
    if (f.name == options_.evaluation.target && f.dtype == DType::f32)
      state_.target_sum.resize(static_cast<std::size_t>(f.shape.elements()));
  seen_targets_.resize(state_.target_sum.size() + 1);
  state_.optimizer = options_.optimizer.to_string();
  state_.schedule = options_.schedule.to_string();
}

void Trainer::resume(const CheckpointReader& reader) {
  const auto kind = [](const std::string& optimizer) { return optimizer.substr(0, optimizer.find(' ')); };
  if (kind(reader.state().optimizer) != kind(state_.optimizer))
    refuse("{}: was trained with the optimizer '{}', not '{}': resume with that optimizer", reader.path().string(),
           reader.state().optimizer, state_.optimizer);
  auto loaded = reader.load(options_.network, parameters_, moments_);
  const auto& checkpoint = reader.path();
  const auto& now = state_;
  if (loaded.seed != now.seed)
    refuse("{}: was trained with seed {}, not {}: resume with that seed", checkpoint.string(), loaded.seed, now.seed);
  if (loaded.step_in_epoch > 0 && loaded.global_batch != now.global_batch)
    refuse(
        "{}: stands within an epoch of batches of {} samples, but {} ranks x {} make {}: resume with ranks x batch = "
        "{}",
        checkpoint.string(), loaded.global_batch, now.world_size, options_.batch, now.global_batch,
        loaded.global_batch);
  if (loaded.step_in_epoch > 0 && loaded.train_samples != now.train_samples)
    refuse("{}: stands within an epoch of {} training samples, but the data has {}: resume with the same data",
           checkpoint.string(), loaded.train_samples, now.train_samples);
  restore_states(loaded, checkpoint);
  if (options_.precision == Precision::fp16)
    plan_.set_loss_scale({.scale = static_cast<float>(loaded.loss_scale),
                          .good_steps = static_cast<std::int32_t>(loaded.good_steps),
                          .skipped = static_cast<std::int32_t>(loaded.skipped_steps)});
  loaded.carried.clear();
  loaded.config = now.config;
  loaded.texts = now.texts;
  loaded.global_batch = now.global_batch;
  loaded.train_samples = now.train_samples;
  loaded.world_size = now.world_size;
  loaded.optimizer = now.optimizer;
  loaded.schedule = now.schedule;
  state_ = loaded;
  saved_step_ = state_.step;
  resumed_from_ = last_saved_ = checkpoint;
}

double Trainer::position() const {
  return static_cast<double>(state_.epoch) +
         static_cast<double>(state_.step_in_epoch) / static_cast<double>(steps_per_epoch());
}

TrainResult Trainer::run(const std::vector<TrainObserver*>& observers) {
  observers_ = &observers;
  run_start_ = Clock::now();
  seconds_before_ = state_.seconds;
  tell([&](auto& o) { o.on_start(state_, resumed_from_); });
  auto reason = StopReason::epochs_done;
  while (state_.epoch < options_.epochs) {
    if (const auto stop = train_epoch()) {
      reason = *stop;
      break;
    }
    finish_epoch();
    if (options_.target > 0 && evaluator_ && !better(options_.target, state_.metric)) {
      reason = StopReason::target_reached;
      break;
    }
  }
  if (saved_step_ != state_.step) save(false);
  tell([&](auto& o) { o.on_stop(state_, reason); });
  return {reason, state_};
}

std::optional<StopReason> Trainer::train_epoch() {
  const auto stop = train_steps();
  retire(0);
  return stop;
}

std::optional<StopReason> Trainer::train_steps() {
  if (options_.max_steps >= 0 && state_.step >= options_.max_steps) return StopReason::max_steps;
  epoch_seconds_ = {};
  epoch_wall_ = 0;
  epoch_samples_ = 0;
  if (state_.step_in_epoch >= steps_per_epoch())
    return std::nullopt;  // stopped between the last step and the validation
  if (state_.step_in_epoch == 0) plan_.reset_states();
  loader_.start_epoch(state_.epoch, state_.step_in_epoch);
  for (;;) {
    const auto begin = Clock::now();
    const Batch* batch = loader_.next();
    if (!batch) return std::nullopt;
    vote_.begin(state_.step_in_epoch + 1 == steps_per_epoch() ? validation_seconds_ : 0);
    const double waited = since(begin);
    auto now = step(*batch);
    now.record.seconds.data = waited;
    const auto decision = vote_.end();
    const auto wall = since(begin);
    vote_.step_took(wall);
    now.record.rate = units(batch->global_count) / wall;
    epoch_seconds_ += now.record.seconds;
    epoch_wall_ += wall;
    epoch_samples_ += batch->global_count;
    state_.seconds = seconds_before_ + since(run_start_);
    if (runs_ahead_)
      launched_.push_back(now);
    else
      tell([&](auto& o) { o.on_step(state_, now.record); });
    if (decision != StopVote::Reason::none)
      return decision == StopVote::Reason::interrupted ? StopReason::interrupted : StopReason::time_limit;
    if (options_.max_steps >= 0 && state_.step >= options_.max_steps && state_.step_in_epoch < steps_per_epoch())
      return StopReason::max_steps;
    if (options_.checkpoint_steps > 0 && state_.step % options_.checkpoint_steps == 0 &&
        state_.step_in_epoch < steps_per_epoch())
      save(false);
  }
}

Trainer::Launched Trainer::step(const Batch& batch) {
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
  if (options_.profiled_steps > 0 && run_steps_ == 3) plan_.set_profiling(true);
  if (run_steps_ == 3 + options_.profiled_steps) plan_.set_profiling(false);
  feed_.feed(batch);
  lap(seconds.copy);
  ops::StepParams s;
  s.seed = options_.seed;
  s.step = static_cast<std::uint64_t>(state_.step);
  s.sample_offset = batch.sample_offset;
  s.inverse_samples = 1.0f / static_cast<float>(batch.global_count);
  s.learning_rate = static_cast<float>(last_rate_ = options_.schedule.at(position()));
  plan_.forward(s);
  plan_.backward();
  lap(seconds.compute);
  plan_.finish_exchange();
  const double loss = runs_ahead_ ? 0 : plan_.loss();
  lap(seconds.exchange);
  ++state_.step;
  ++state_.step_in_epoch;
  state_.samples += batch.global_count;
  now.record.step = state_.step;
  now.record.epoch = position();
  now.record.learning_rate = last_rate_;
  if (!runs_ahead_) retire(now, {loss, plan_.checks_gradients() ? plan_.loss_scale() : ops::LossScale()});
  plan_.update();
  plan_.carry_states();
  if (state_.epoch == 0) count_targets(batch);
  if (runs_ahead_) {
    plan_.start_readback();
    retire(0);  // of the step before, while this one goes on
  }
  lap(seconds.compute);
  feed_.finish();
  lap(seconds.copy);
  return now;
}

void Trainer::retire(std::size_t left) {
  while (launched_.size() > left) {
    Launched done = launched_.front();
    launched_.erase(launched_.begin());
    retire(done, plan_.take_readback());
    tell([&](auto& o) { o.on_step(state_, done.record); });
  }
}

void Trainer::retire(Launched& step, const Plan::StepResult& result) {
  step.record.loss = result.loss / units(1);
  if (!std::isfinite(result.loss))
    stop_for(step, fmt::format("the loss became {}", std::isnan(result.loss) ? "NaN"
                                                     : result.loss > 0       ? "infinite"
                                                                             : "minus infinite"));
  state_.skipped_steps = result.scaling.skipped;
  if (result.scaling.skip && result.scaling.unscale >= 1) stop_for(step, "gradients became infinite or NaN");
  state_.loss_sum += result.loss * static_cast<double>(step.samples);
  state_.loss_samples += step.samples;
}

}  // namespace keelson
