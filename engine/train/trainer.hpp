#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/train/checkpoint/checkpoint_reader.hpp"
#include "engine/train/evaluator.hpp"
#include "engine/train/observers.hpp"
#include "engine/train/pending_steps.hpp"
#include "engine/train/progress_choice.hpp"
#include "engine/train/rank_recovery.hpp"
#include "engine/train/run_clock.hpp"
#include "engine/train/stop_vote.hpp"
#include "engine/train/trainer_options.hpp"
#include "engine/train/training_batches.hpp"
#include "engine/train/training_checks.hpp"
#include "engine/train/training_ranks.hpp"
#include "engine/train/training_session.hpp"

namespace keelson {

/// The loss, or a gradient, was not finite in a step.
class LossNotFinite : public Error {
 public:
  using Error::Error;
};

/// How a run ended.
struct TrainResult {
  StopReason reason;  ///< why no further step was made
  RunState state;     ///< after the last step
};

/// Data-parallel training of a graph. The trainer feeds the fields of a data set to the graph's inputs of
/// the same names, minimizes the loss, and evaluates the network on validation data. All ranks make the same calls.
/// With the same seed and global batch, losses and parameters depend on the number of ranks only by the order of fp32
/// sums, and with ExchangeOptions::reproducible not at all. A resumed run gives the same bits as a run without
/// interruption.
///
/// All this holds in synchronous training, and with SyncMode::Kind::lag, which delays every update by a step. In the
/// other modes (TrainerOptions::sync, docs/relaxed-modes.md) each rank's optimizer makes updates of the rank's own
/// gradients, batch normalization knows the rank's own samples, and parameters differ between ranks. validate(),
/// end_epoch(), save_checkpoint(), wait(), and the end of run() first make the parameters the same on all ranks, and
/// training goes on with these. So checkpoints, validations and their number are a part of the run's course: a resumed
/// run gives the bits of the run that wrote the checkpoint and went on. Losses and votes of a step may be known some
/// steps later. On one rank these modes do the same as synchronous training. They are refused for fp16, whose loss
/// scale all ranks must agree on, for 16-bit ExchangeOptions::wire, and, with lag, if ranks can be lost.
///
/// If ranks can be lost (Communicator::survives_losses), the others go on. All ranks agree before a step moves
/// parameters, and after each validation and checkpoint. If a rank was lost, the others make a group without it, and do
/// the interrupted work again, with the parameters of before. The samples of the epoch that are not yet done are dealt
/// to the ranks that are left, `batch` per rank and step, so that no sample is left out or seen twice; losses stay
/// means over the samples of a step. The learning rate follows the part of the epoch that is done. If replicas have
/// several ranks (TrainerOptions::replica), the ranks that are left make up whole replicas, and others wait
/// (TrainingRanks). Ranks that wait make all calls, too; they have no executor(). Two kinds of
/// training cannot go on, and throw RanksLost: networks with recurrent states, whose samples are dealt to a fixed
/// number of ranks, and step(batch), whose batches the caller has dealt. With TrainerOptions::restart_on_loss every
/// loss throws RanksLost.
///
/// run() does everything, or the caller writes the loop:
///
///   while (trainer.step()) {
///     if (trainer.epoch_done()) trainer.end_epoch();
///     ... trainer.last_step(), trainer.validate(), trainer.save_checkpoint() when the caller wants them ...
///   }
///
/// docs/adding-a-network.md has an example. run() is made of the same functions, so both give the same bits.
class Trainer {
 public:
  /// `validation` may be null. `communicator` null: this rank alone. All references must outlive the trainer. Throws
  /// InputError for data that are too small for the batch or for the ranks, and, on all ranks, if the ranks have
  /// different data (Dataset::digest), options or plans. Collective.
  Trainer(const Graph& graph, Parameters& parameters, const Dataset& training, const Dataset* validation,
          Communicator* communicator, TrainerOptions options);

  /// Continues from this checkpoint. Throws InputError, before anything changes, for a checkpoint of another network,
  /// optimizer or seed, for a damaged one, and, within an epoch, for a checkpoint of another global batch or other
  /// data. If the checkpoint lies in the folder of TrainerOptions::checkpoints, the next step() or end_epoch() moves
  /// the checkpoints of later steps out of the way, as CheckpointFolder::set_aside(). Collective.
  ///
  /// If the checkpoint's topology differs from the trainer's network and TrainerOptions::make_network or change_network
  /// is given, the network is made anew, and the trainer replaces the parameters by those of that network. Throws
  /// InputError, naming the first node that differs, if the new network does not have the checkpoint's topology.
  void resume(const CheckpointReader& checkpoint);
  /// The same with the checkpoint of this path; throws also as CheckpointReader.
  void resume(const std::filesystem::path& checkpoint) { resume(CheckpointReader(checkpoint, false, communicator_)); }

  /// Replaces the observers by these, which must outlive the training.
  void observe(std::vector<TrainObserver*> observers) { observers_.replace(std::move(observers)); }

  /// Trains until one of the StopReasons holds, with validations and checkpoints as the options say. Throws as step(),
  /// validate() and save_checkpoint(). Collective.
  ///
  /// `make_rank0_observers`: makes observers of rank 0 alone. Called on rank 0 before on_start(), and after a loss of
  /// rank 0 on the rank that is rank 0 then (TrainObserver::on_take_over).
  TrainResult run(std::vector<TrainObserver*> observers = {}, Observers::Maker make_rank0_observers = {});

  /// Makes one optimizer step on the next batch of the training data. After the last step of an epoch the next call
  /// begins the next epoch. Returns false, without a step, if all epochs or max_steps are done, if the ranks voted to
  /// end in the previous step (signal or time limit), or if end_epoch() reached the target (stop_reason()).
  ///
  /// Throws RanksLost if more ranks were lost than TrainerOptions::max_failures, or ranks that the others cannot go
  /// on without. Throws LossNotFinite on all ranks if the loss is not finite, naming the step and the first node with
  /// such a value. On a device that the host runs ahead of (GPUs), the next step() or wait() throws this error.
  /// Collective.
  bool step();
  /// Makes one optimizer step on the caller's batch instead of the next batch of the training data. The step counts in
  /// the epoch, for the learning rate and for dropout, as any other step. The batch has the fields of the training data
  /// with room for TrainerOptions::batch samples, and zeros beyond `count`. All ranks of a replica
  /// (TrainerOptions::replica) give the same batch; if they compute parts of samples, a batch throws InputError.
  /// global_count is the sum of all replicas' counts, sample_offset is the number of the replica *
  /// TrainerOptions::batch. weight and indices may be null. The step is made even if stop_reason() has a value. Throws
  /// InputError for a batch that does not fit, and as step(). Collective.
  void step(const Batch& batch);
  /// What run() does after each step: end_epoch() if all steps of the epoch are done, and checkpoints as the options
  /// say. Does nothing when training has ended (stop_reason()). Throws as these. Collective.
  void after_step();
  /// What run() does after the last step: a checkpoint, if the latest one is of another state, and wait().
  /// Collective.
  void finish();
  /// Waits until the device has done all steps, all ranks have the same parameters, and the last checkpoint is written.
  /// Afterwards last_step() is the latest step. Throws as step() and save_checkpoint(). Collective.
  void wait();
  /// The latest step whose loss is known. On a device that the host runs ahead of, this is the step before the latest
  /// one, unless wait() was called; in some of the modes of TrainerOptions::sync an earlier one.
  const StepRecord& last_step() const { return last_step_; }
  /// Ends training (StopReason::stopped), if any rank calls it: in an observer's on_epoch(), with the epoch; else on
  /// one rank before the next step, and on several ranks, which must agree first, as soon as they have, which is after
  /// one more step (in some of the modes of TrainerOptions::sync after a few). The last checkpoint and run() or
  /// finish() are as at any other end. Any thread may call it. run() and resume() forget calls from before.
  void stop() { asked_to_stop_ = true; }
  /// The learning rate of the next step, but for the factor of TrainerOptions::prune.
  double learning_rate() const { return scheduled_rate() * rate_factor(state_); }
  /// The next step has this learning rate: all rates of the schedule are from now on multiplied by the same factor,
  /// which checkpoints hold (rate_factor_entry). Called between two steps, or by observers. Throws InputError for a
  /// rate that is negative or not finite, where the schedule's rate is 0, and if the ranks give different rates.
  /// Collective.
  void set_learning_rate(double rate);
  /// Why step() returned false, or why the next step() will return false, as far as that is known.
  std::optional<StopReason> stop_reason() const { return stop_; }

  /// Whether all steps of the epoch are done and end_epoch() has not been called.
  bool epoch_done() const { return state_.step_in_epoch >= steps_of_epoch(state_); }
  /// Ends the epoch: validates, if there are validation data, and counts the epoch as done. A validation that reaches
  /// TrainerOptions::target ends the training. Throws Error if epoch_done() is false. Collective.
  EpochRecord end_epoch();
  /// Evaluates the network on the validation data, at any step. The state of the training does not change. Throws Error
  /// without validation data. Collective.
  Evaluation validate();
  /// Writes step-N.h5, where N is the number of steps done. With `best`, best.h5 becomes another name of this file.
  /// Returns when rank 0 has a copy in memory, which a thread of its own writes while training goes on; first waits for
  /// the checkpoint before. Does nothing if the options name no folder. Throws Error on all ranks if this or the
  /// checkpoint before cannot be written; so does the next step(). Collective.
  void save_checkpoint(bool best = false);

  const RunState& state() const { return state_; }            ///< after the latest step
  const TrainerOptions& options() const { return options_; }  ///< as given to the constructor
  /// Where the time since the first step of this run went. On rank 0 of all ranks, elsewhere empty. Collective.
  RunTimes gather_times();
  /// What gather_times() found at the end of run(): from on_stop() of the observers on. None without other ranks.
  const std::optional<RunTimes>& run_times() const { return run_times_; }
  /// Where the training and validation samples of this run have come from, of all ranks together. Collective.
  SampleCounts count_samples();
  /// What count_samples() found at the end of run(): from on_stop() of the observers on. None without a cache.
  const std::optional<SampleCounts>& samples_read() const { return samples_read_; }
  /// What the first steps have shown of ProgressBy::measured, in words; empty: nothing was measured.
  const std::string& progress_finding() const { return progress_.finding(); }
  /// The ranks lost so far, by their numbers when the trainer was made.
  const std::vector<Recovery::Lost>& lost() const { return recovery_.lost(); }
  /// What the ranks were doing at the loss after which TrainerOptions::restart_on_loss has made this trainer throw;
  /// none: there was no loss in training.
  const std::optional<Recovery>& loss() const { return recovery_.loss(); }
  /// The contents of the latest checkpoint, on every rank if ranks may be lost; null: there is none.
  const std::shared_ptr<const CheckpointCopy>& last_copy() const { return checkpoints_.last_copy(); }
  /// The latest checkpoint that this run has written, or is writing, or was resumed from; empty: none.
  const std::filesystem::path& last_checkpoint() const { return checkpoints_.last(); }
  /// The executor of the current network; valid until the network changes or ranks are lost. Throws Error on a rank
  /// that waits.
  const Executor& executor() const { return session_.executor(); }
  const Dataset& training_data() const { return batches_.data(); }  ///< as given to the constructor
  /// What is known of the training samples (TrainerOptions::prune), the same on all ranks: after the epochs that have
  /// ended.
  const SamplePruning& pruning() const { return pruning_; }
  /// Steps of one epoch of all training samples: their number / global batch, rounded up.
  std::int64_t steps_per_epoch() const {
    return (state_.train_samples + state_.global_batch - 1) / state_.global_batch;
  }

 private:
  // Parts of the loop, in the order of their calls.
  void begin();                                     ///< the first step of a run is to come
  std::optional<StopReason> limit_reached() const;  ///< of epochs or steps
  void begin_next_epoch();
  void prepare_step();  ///< what the first step of a run or an epoch needs
  /// The part of a step that the ranks make together, and that leaves parameters as they are: gradients and the vote.
  PendingStep compute(const Batch& batch, Stopwatch& watch);
  /// The rest of the step: moves the parameters, and ends what can be ended of this step and of steps before.
  void apply(PendingStep step, const Batch& batch, Stopwatch& watch);
  void take_vote();
  bool any_asked_to_stop();       ///< collective
  double scheduled_rate() const;  ///< of the next step, without rate_factor()
  /// Ends steps until `left` of them are pending.
  void finish_pending(std::size_t left);
  PendingSteps::Finish finisher();  ///< what ends a pending step
  /// Adds the loss of a step to the state. Throws Error if the loss or a gradient is not finite.
  void add_loss(PendingStep& step, const Executor::StepResult& result);
  [[noreturn]] void stop_for(const PendingStep& step, const std::string& what);
  void notify_step(const StepRecord& record);

  // Samples that are left out.
  void choose_samples();  ///< of the epoch that begins
  void record_losses(const PendingStep& step, const Executor::StepResult& result);
  void share_losses();          ///< all ranks then know the losses of all samples of the steps so far
  void end_epoch_of_samples();  ///< after the last step of an epoch
  /// Takes RunState::of_samples out of the state of a checkpoint. `what`: begins errors.
  void restore_samples(RunState& loaded, const std::string& what);

  /// Waits for all steps, and for what ranks exchange beside them. The ranks are equal then.
  void synchronize();

  // Ranks that are lost.
  bool survives() const;  ///< whether the ranks that are left can go on after a loss
  /// As RankRecovery::retry_until_agreed(); runs `work` once if ranks cannot be lost. Notifies the observers.
  void retry_until_agreed(const RankRecovery::Work& work);
  void release_group();
  void rebuild_group();
  void bring_up_to_date();  ///< gives the parameters of the others to ranks that waited. Can be done again
  /// RankRecovery::Work::share of a step and of a validation.
  void share(PendingStep& step);
  void share(Evaluation& validation);
  /// Whether the host queues a step before it knows the loss of the step before. Ranks that wait are told of each loss.
  bool runs_ahead() const { return runs_ahead_ && ranks_.waiting() == 0; }
  void join_ranks();  ///< after the session was made anew: losses and votes follow its exchange

  // Networks that change, and resuming.
  void ask_for_change();  ///< TrainerOptions::change_network, when an epoch begins
  void note_step_time();  ///< step_ms_entry of the epoch that ends
  void apply(NetworkChange change);
  void remember_network();  ///< for an undo: RunState::before
  void restore_network();   ///< the one of RunState::before
  void adopt_sync_mode(std::int64_t epochs);
  /// The checkpoint's network if that is not the trainer's: TrainerOptions::make_network makes it.
  std::optional<Graph> network_of(const CheckpointReader& checkpoint) const;
  /// Local: releases all of the old network. make_parts(), which is collective, makes the parts of the new one.
  void replace_network(Graph graph, Parameters parameters);
  void make_parts();
  void set_network(Graph graph, Parameters parameters);  ///< both; with ranks that may be lost meanwhile

  /// Whether the network with metric (or, without metrics, loss) `a` is better than the one with `b`.
  bool better(double a, double b) const {
    const auto* judge = options_.evaluation.judge();
    return judge ? judge->better(a, b) : a < b;
  }
  bool is_rank0() const { return !communicator_ || communicator_->rank() == 0; }
  bool is_alone() const { return !communicator_ || communicator_->size() == 1; }
  double units(double samples) const { return samples * static_cast<double>(options_.unit.per_sample); }

  const TrainerOptions options_;
  Parameters& parameters_;
  Communicator* communicator_;
  TrainingRanks ranks_;  ///< of communicator_
  RunState state_;
  Observers observers_;
  SamplePruning pruning_;
  TrainingBatches batches_;
  TrainingSession session_;  ///< ends before the batches that it reads
  PendingSteps pending_;
  std::optional<Evaluator> evaluator_;
  RunCheckpoints checkpoints_;
  RankRecovery recovery_;
  StopVote vote_;
  ProgressChoice progress_;
  RunClock clock_;
  std::atomic<bool> asked_to_stop_ = false;
  bool begun_ = false;      ///< begin() has been called since the last run() or resume()
  const bool runs_ahead_;   ///< steps are queued while the device is at work on the one before
  bool up_to_date_ = true;  ///< this rank's parameters are those after the latest step
  StopVote::Reason decision_ = StopVote::Reason::none;  ///< of the step's vote
  std::optional<StopReason> stop_;
  StepRecord last_step_;
  std::optional<EpochRecord> last_epoch_;
  double last_rate_ = 0, validation_seconds_ = 0;  ///< learning rate of the last step; of the last validation
  std::optional<RunTimes> run_times_;
  std::optional<SampleCounts> samples_read_;
};

}  // namespace keelson
