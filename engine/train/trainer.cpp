#include "engine/train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/activity.hpp"
#include "engine/base/error.hpp"
#include "engine/base/ranks.hpp"
#include "engine/base/trace.hpp"
#include "engine/execute/culprit.hpp"
#include "engine/ops/loss.hpp"
#include "engine/train/noise_scale.hpp"
#include "engine/train/training_grid.hpp"

namespace keelson {
namespace {

RunState first_state(const Graph& graph, const Dataset& training, const Communicator* ranks, const TrainerOptions& o) {
  RunState s;
  s.network = o.network;
  s.config = o.config;
  s.texts = o.texts;
  s.topology = Topology(graph).to_text();
  s.seed = o.seed;
  s.world_size = ranks ? ranks->size() : 1;
  s.global_batch = o.batch * training_grid(ranks, o.replica).extent(ProcessGrid::Axis::data);
  s.train_samples = training.size();
  s.optimizer = o.optimizer->to_string();
  s.schedule = o.schedule.to_string();
  return s;
}

/// Whether the loss of a sample is -log of the probability of its class.
bool has_probabilities(const Graph& graph) {
  if (graph.loss() < 0) return false;  // the plan refuses it
  const Graph::Node& loss = graph.nodes()[static_cast<std::size_t>(graph.loss())];
  return loss.layer->kind() == ops::to_string(ops::LossKind::cross_entropy) &&
         graph.nodes()[static_cast<std::size_t>(loss.srcs[0])].shape.rows_per_sample() == 1;
}

ProgressBy progress_of(const TrainerOptions& o) {
  const bool alike = o.sync.kind == SyncMode::Kind::synchronous || o.sync.kind == SyncMode::Kind::lag;
  return o.progress == ProgressBy::measured && !alike ? ProgressBy::calls : o.progress;
}

EvaluatorOptions evaluator_options(const TrainerOptions& o, const CacheOptions& cache) {
  return {.batch = o.batch,
          .micro_batches = o.micro_batches,
          .replica = o.replica,
          .stage_starts = o.stage_starts,
          .whole_parameters = o.whole_parameters(),
          .precision = o.precision,
          .one_by_one = o.exchange.reproducible,
          .threads = o.threads,
          .cache = cache,
          .unit = o.unit,
          .evaluation = o.evaluation};
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
    case StopReason::stopped:
      return "stopped";
  }
  return "";
}

Trainer::Trainer(const Graph& graph, Parameters& parameters, const Dataset& training, const Dataset* validation,
                 Communicator* communicator, TrainerOptions options)
    : options_((require_trainable(graph, training, validation, options, communicator,
                                  parameters.context().device().current_instance().concurrency()),
                std::move(options))),
      parameters_(parameters),
      communicator_(communicator),
      ranks_(communicator, options_.replica),
      state_(first_state(graph, training, communicator, options_)),
      pruning_(options_.prune, training.size(), options_.seed, options_.epochs, options_.shuffle,
               has_probabilities(graph)),
      batches_(training, parameters.context().device(), ranks_, options_),
      session_(graph, parameters, batches_, ranks_, options_),
      pending_(parameters.context().device().is_asynchronous()),
      checkpoints_(options_.checkpoints, communicator, observers_),
      recovery_(ranks_, options_.max_failures, options_.restart_on_loss, checkpoints_),
      vote_(communicator, options_.start, options_.time_limit, options_.interrupted),
      progress_(communicator, progress_of(options_), options_.threads.cpus),
      runs_ahead_(parameters.context().device().is_asynchronous()) {
  batches_.regroup(session_.rows());  // after the plan, which knows best whether there is memory for the batch
  join_ranks();
  if (validation)
    evaluator_.emplace(graph, parameters, *validation, communicator,
                       evaluator_options(options_, batches_.cache_left()));
}

TrainResult Trainer::run(std::vector<TrainObserver*> observers, Observers::Maker make_rank0_observers) {
  observers_.replace(std::move(observers), std::move(make_rank0_observers));
  if (is_rank0()) observers_.make_rank0_observers();
  begun_ = false;
  const bool was_asked = stop_ == StopReason::stopped;
  stop_.reset();
  asked_to_stop_ = false;
  if (was_asked && session_.slack() > 0) {  // votes of the run before are still on their way
    synchronize();
    join_ranks();
  }
  begin();
  after_step();  // of a run that was stopped between the last step of an epoch and its validation
  while (step()) after_step();
  finish();
  if (!lost().empty())
    retry_until_agreed({"the comparison of the parameters",
                        [&] { recovery_.compare_parameters(parameters_, options_.moments().size()); }});
  if (communicator_ && communicator_->size() > 1)
    retry_until_agreed({"the table of times", [&] { run_times_ = gather_times(); }});
  if (options_.cache.enabled())
    retry_until_agreed({"the number of samples read", [&] { samples_read_ = count_samples(); }});
  observers_.notify([&](auto& o) { o.on_stop(state_, *stop_); });
  return {*stop_, state_};
}

void Trainer::after_step() {
  if (stop_) return;  // by a vote: also if the epoch is done, the validation is for the run that continues
  if (epoch_done()) {
    const bool best = end_epoch().best;
    if (checkpoints_.due_after_epoch(state_, best)) save_checkpoint(best);
  } else if (checkpoints_.due_after_step(state_)) {
    save_checkpoint(false);
  }
}

void Trainer::finish() {
  finish_pending(0);
  if (!checkpoints_.is_saved(state_)) save_checkpoint(false);
  wait();
}

void Trainer::begin() {
  if (begun_) return;
  begun_ = true;
  clock_.begin(state_);
  observers_.notify([&](auto& o) { o.on_start(state_, checkpoints_.resumed_from()); });
}

bool Trainer::step() {
  begin();
  if (stop_) return false;
  stop_ = limit_reached();
  if (!stop_ && asked_to_stop_ && is_alone()) stop_ = StopReason::stopped;
  if (!stop_ && epoch_done()) {  // at a limit the epoch stays as it is, and its validation is still to come
    begin_next_epoch();
    stop_ = limit_reached();
  }
  if (stop_) {
    synchronize();
    return false;
  }
  prepare_step();
  const Activity activity(Activity::Kind::step, state_.step + 1, state_.epoch + 1);
  PendingStep now;
  const Batch* batch = nullptr;
  Stopwatch watch;
  retry_until_agreed({"a step",
                      [&] {
                        batches_.seek(state_);
                        watch.restart();
                        batch = &batches_.next(state_);
                        now = compute(*batch, watch);
                      },
                      [&] { share(now); }});
  now.record.seconds.exchange += watch.lap();  // until the ranks agreed
  apply(now, *batch, watch);
  return true;
}

void Trainer::step(const Batch& given) {
  if (pruning_.enabled())
    refuse(
        "a batch of the caller was given, but the trainer chooses samples (TrainerOptions::prune): let the trainer "
        "read "
        "the samples");
  const Batch batch = batches_.checked(given);
  begin();
  if (epoch_done()) begin_next_epoch();
  prepare_step();
  const Activity activity(Activity::Kind::step, state_.step + 1, state_.epoch + 1);
  Stopwatch watch;
  const PendingStep now = compute(batch, watch);
  apply(now, batch, watch);
}

std::optional<StopReason> Trainer::limit_reached() const {
  if (state_.epoch >= options_.epochs) return StopReason::epochs_done;
  if (options_.max_steps >= 0 && state_.step >= options_.max_steps) return StopReason::max_steps;
  return std::nullopt;
}

void Trainer::begin_next_epoch() {
  synchronize();
  end_epoch_of_samples();
  keelson::begin_next_epoch(state_);
  clock_.begin_epoch();
}

void Trainer::prepare_step() {
  checkpoints_.set_aside_later_ones(state_);
  ask_for_change();
  adopt_sync_mode(state_.epoch);
  if (state_.step_in_epoch == 0) choose_samples();
  if (state_.step_in_epoch == 0) observers_.notify([&](auto& o) { o.on_epoch_start(state_); });
}

PendingStep Trainer::compute(const Batch& batch, Stopwatch& watch) {
  vote_.reserve(checkpoints_.longest_seconds());
  vote_.begin(state_.step_in_epoch + 1 == steps_of_epoch(state_) ? validation_seconds_ : 0, checkpoints_.failed(),
              asked_to_stop_);
  PendingStep now{.epoch = state_.epoch, .weight = batch.total_weight()};
  TimeSplit& seconds = now.record.seconds;
  seconds.input += batches_.take_waits(watch.lap());
  ops::StepParams params;
  params.seed = options_.seed;
  params.step = static_cast<std::uint64_t>(state_.step);
  last_rate_ = learning_rate() * (pruning_.enabled() ? pruning_.rate_factor() : 1);
  params.learning_rate = static_cast<float>(last_rate_);
  params.averaging_weight = static_cast<float>(averaging_weight(state_, last_rate_));
  if (pruning_.enabled()) now.samples.assign(batch.indices, batch.indices + batch.count);
  if (ranks_.waits()) return now;
  session_.compute_gradients(batch, params, state_.step_in_epoch == 0, watch, seconds);
  if (survives()) {  // the sums must be here before the ranks agree on them
    session_.executor().finish_exchange();
    if (runs_ahead_) parameters_.context().device().fence();
    take_vote();
  }
  if (!runs_ahead()) now.loss = session_.executor().loss();
  seconds.exchange += watch.lap();
  return now;
}

void Trainer::apply(PendingStep now, const Batch& batch, Stopwatch& watch) {
  const bool apart = session_.ranks_apart() != nullptr;
  TimeSplit& seconds = now.record.seconds;
  session_.take_exchange_seconds();
  ++state_.step;
  ++state_.step_in_epoch;
  state_.samples += batch.global_count;
  now.record.step = state_.step;
  now.record.epoch = position(state_);
  now.record.learning_rate = last_rate_;
  if (options_.optimizer->reads_ahead()) count_rate(state_, last_rate_);
  if (!runs_ahead() && !apart) {
    std::vector<float> of_samples;
    if (pruning_.enabled() && !ranks_.waits()) of_samples = session_.executor().sample_losses();
    add_loss(now, {now.loss, session_.loss_scale(), of_samples});
  }
  session_.update();
  up_to_date_ = !ranks_.waits();
  if (const auto measured = session_.measured_noise()) add_measurement(state_, *measured);
  if (options_.noise_scale > 0) now.record.noise = noise_scale(state_);
  observers_.notify([&](auto& o) { o.on_batch(state_, batch); });
  if (runs_ahead()) {
    session_.executor().start_readback();
    if (!apart) finish_pending(0);  // of the step before, while this one goes on
  }
  const double waited = session_.take_exchange_seconds();  // for buckets, by the update
  seconds.compute += watch.lap() - waited;
  session_.exchange_parameters(state_.step);
  seconds.exchange += waited + watch.lap();
  session_.finish_input();
  seconds.copy += watch.lap();
  if (!survives()) take_vote();
  seconds.exchange += watch.lap();

  const double wall = watch.seconds();
  vote_.step_took(wall);
  progress_.step_took(wall - seconds.data());
  now.record.rate = units(static_cast<double>(batch.global_count)) / wall;
  clock_.add_step(seconds, wall, batch.global_count);
  state_.seconds = clock_.seconds();
  if (runs_ahead() || apart)
    pending_.add(now, session_.executor(), finisher());
  else
    notify_step(now.record);
  checkpoints_.notify_if_written();
  if (decision_ == StopVote::Reason::failed)
    retry_until_agreed({"a checkpoint", [&] { checkpoints_.finish(); }});
  else if (decision_ != StopVote::Reason::none)
    stop_ = decision_ == StopVote::Reason::interrupted ? StopReason::interrupted
            : decision_ == StopVote::Reason::stopped   ? StopReason::stopped
                                                       : StopReason::time_limit;
}

bool Trainer::any_asked_to_stop() {
  double any = asked_to_stop_ ? 1 : 0;
  retry_until_agreed({"the vote on ending the run", [&] {
                        if (!is_alone()) communicator_->on_host().allreduce(&any, 1, Reduction::max);
                      }});
  return any > 0;
}

double Trainer::scheduled_rate() const {
  return options_.learning_rate ? options_.learning_rate(state_) : options_.schedule.at(position(state_));
}

void Trainer::set_learning_rate(double rate) {
  const double scheduled = scheduled_rate();
  if (!(rate >= 0 && std::isfinite(rate))) refuse("the learning rate is {}. Expected a number of at least 0", rate);
  if (scheduled == 0)
    refuse(
        "the learning rate cannot be set to {} where the schedule ({}) has the rate 0, since it becomes a factor of "
        "the schedule: set it in another step, or give another schedule",
        rate, options_.schedule.to_string());
  if (!is_alone())
    compare_values(*communicator_, {{"the rate", fmt::format("{}", rate)}}, "learning rates",
                   "set it to the same number on all ranks");
  state_.observed[rate_factor_entry] = {rate / scheduled};
}

void Trainer::take_vote() {
  const TraceSpan span("wait for the vote", "exchange");
  decision_ = vote_.end();
}

PendingSteps::Finish Trainer::finisher() {
  return [this](PendingStep& step, const Executor::StepResult& result) {
    add_loss(step, result);
    notify_step(step.record);
  };
}

void Trainer::finish_pending(std::size_t left) {
  if (!ranks_.waits()) pending_.finish_all_but(left, session_.executor(), finisher());
}

void Trainer::add_loss(PendingStep& step, const Executor::StepResult& result) {
  step.record.loss = result.loss / units(1);
  if (!std::isfinite(result.loss))
    stop_for(step, fmt::format("the loss became {}", std::isnan(result.loss) ? "NaN"
                                                     : result.loss > 0       ? "infinite"
                                                                             : "minus infinite"));
  state_.skipped_steps = result.loss_scale.skipped;
  if (result.loss_scale.skip && result.loss_scale.unscale >= 1) stop_for(step, "gradients became infinite or NaN");
  state_.loss_sum += result.loss * step.weight;
  state_.loss_samples += step.weight;
  record_losses(step, result);
}

void Trainer::stop_for(const PendingStep& step, const std::string& what) {
  auto culprit = session_.first_non_finite();
  checkpoints_.wait();  // the message names the checkpoint
  if (!culprit.empty() && communicator_) culprit += fmt::format(" on rank {}", communicator_->number());
  if (communicator_) {
    const auto all = communicator_->allgather(culprit);
    culprit.clear();
    // An input or a parameter is the cause of what layers hold, on other ranks, too, if layers communicate.
    for (const char* kind : {"input", "parameter", "layer"})
      for (std::size_t r = 0; r < all.size() && culprit.empty(); ++r)
        if (all[r].starts_with(kind)) culprit = all[r];
  }
  const std::string advice = culprit.starts_with("input")
                                 ? "Mend the data, or leave the sample out"
                                 : "Try a smaller learning rate, a longer warm-up or --clip-norm";
  throw LossNotFinite(fmt::format("{} in step {} (epoch {}); {}. {}. {}", what, step.record.step, step.epoch + 1,
                                  why_not_finite(culprit, "the loss itself"), checkpoints_.describe_last(), advice));
}

void Trainer::notify_step(const StepRecord& record) {
  last_step_ = record;
  observers_.notify([&](auto& o) { o.on_step(state_, record); });
}

void Trainer::synchronize() {
  finish_pending(0);
  session_.make_equal();
  if (session_.ranks_apart()) vote_.wait();
  if (ranks_.waiting() > 0)
    retry_until_agreed({"the copy of the parameters to ranks that wait", [this] { bring_up_to_date(); }});
}

Evaluation Trainer::validate() {
  if (!evaluator_) fail("validate() was called on a trainer without validation data: give the trainer a data set");
  synchronize();
  const Activity activity(Activity::Kind::validation, state_.step, state_.epoch + 1);
  const Stopwatch watch;
  Evaluation validation;
  retry_until_agreed({"a validation",
                      [&] {
                        observers_.notify([&](auto& o) { o.on_validation_start(state_); });
                        if (!ranks_.waits()) validation = evaluator_->run();
                      },
                      [&] { share(validation); }});
  validation_seconds_ = validation.seconds;
  clock_.add_validation(watch.seconds());
  return validation;
}

EpochRecord Trainer::end_epoch() {
  if (!epoch_done())
    fail("end_epoch() was called after {} of the {} steps of an epoch: call it where epoch_done()",
         state_.step_in_epoch, steps_of_epoch(state_));
  begin();
  checkpoints_.set_aside_later_ones(state_);
  synchronize();
  EpochRecord record;
  record.samples = samples_of_epoch(state_);
  std::optional<Evaluation> validation;
  if (evaluator_) {
    validation = validate();
    record.best = state_.best_epoch < 0 || better(validation->metric, state_.best_metric);
    record.validation_loss = state_.validation_loss = validation->loss;
    record.metric = state_.metric = validation->metric;
    record.metric_values = validation->metric_values;
    record.validation_seconds = validation->seconds;
  }
  record.train_loss = state_.loss_sum / units(std::max(1.0, state_.loss_samples));
  record.learning_rate = last_rate_;
  record.rate = clock_.epoch_rate() * units(1);
  record.seconds = clock_.epoch();
  if (options_.noise_scale > 0) record.noise = noise_scale(state_);
  if (options_.change_network) note_step_time();
  begin_next_epoch();
  checkpoints_.mark_changed();  // a checkpoint of before does not know of the validation
  state_.seconds = clock_.seconds();
  record.epoch = state_.epoch;
  record.step = state_.step;
  if (record.best) {
    state_.best_metric = state_.metric;
    state_.best_epoch = state_.epoch;
  }
  last_epoch_ = record;
  observers_.notify([&](auto& o) { o.on_epoch(state_, record, validation ? &*validation : nullptr); });
  if (any_asked_to_stop()) stop_ = StopReason::stopped;
  if (options_.target > 0 && validation && !better(options_.target, state_.metric)) stop_ = StopReason::target_reached;
  return record;
}

void Trainer::save_checkpoint(bool best) {
  synchronize();
  checkpoints_.mark_saved(state_);
  if (!checkpoints_.wanted()) return;
  share_losses();
  // After the last step of an epoch the next one has begun, without a step.
  const Activity activity(Activity::Kind::checkpoint, state_.step, state_.epoch + (state_.step_in_epoch > 0 ? 1 : 0));
  const Stopwatch watch;
  retry_until_agreed({"a checkpoint", [&] {
                        checkpoints_.finish();
                        observers_.notify([&](auto& o) { o.before_checkpoint(state_); });
                        // If ranks may be lost, any rank may have to go on from this.
                        session_.store(state_, survives());
                        if (pruning_.enabled()) state_.of_samples = pruning_.state(state_.step_in_epoch > 0);
                        checkpoints_.copy(state_, parameters_, options_.moments(), best, survives());
                        state_.carried.clear();
                        state_.of_samples.clear();
                      }});
  checkpoints_.start_writing(state_, survives());
  vote_.reserve(watch.seconds());
  clock_.add_checkpoint(watch.seconds());
}

void Trainer::wait() {
  synchronize();
  if (checkpoints_.wanted()) retry_until_agreed({"a checkpoint", [&] { checkpoints_.finish(); }});
}

SampleCounts Trainer::count_samples() {
  SampleCounts mine = batches_.counts();
  if (evaluator_) mine += evaluator_->counts();
  std::int64_t n[] = {mine.read.memory, mine.read.disk, mine.read.copies, mine.read.files, mine.received, mine.sent};
  if (communicator_) communicator_->on_host().allreduce(n, std::size(n), Reduction::sum);
  return {{n[0], n[1], n[2], n[3]}, n[4], n[5]};
}

RunTimes Trainer::gather_times() {
  if (!communicator_) fail("gather_times() needs a communicator");
  auto times = clock_.gather(state_, communicator_->on_host());
  times.host_runs_ahead = runs_ahead_;
  return times;
}

}  // namespace keelson
