#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/data/loader.hpp"
#include "engine/execute/executor.hpp"
#include "engine/graph/topology.hpp"
#include "engine/optim/schedule.hpp"
#include "engine/optim/sgd.hpp"
#include "engine/train/checkpoint/checkpoint.hpp"
#include "engine/train/checkpoint/checkpoint_reader.hpp"
#include "engine/train/checkpoint/checkpoint_writer.hpp"
#include "engine/train/evaluator.hpp"
#include "engine/train/observer.hpp"
#include "engine/train/progress_choice.hpp"
#include "engine/train/run_times.hpp"
#include "engine/train/stop_vote.hpp"
#include "engine/train/sync/loss_mean.hpp"
#include "engine/train/sync/synchronizer.hpp"

namespace keelson {

/// Another network to train from the next step on.
struct NetworkChange {
  Graph graph;         ///< with the inputs, loss and output that data and metrics need
  ParameterMaps maps;  ///< as Parameters::remap() takes them; channel_maps() makes them
};

/// How a network is trained.
struct TrainerOptions {
  std::string network;                        ///< name, stored in checkpoints
  std::map<std::string, std::string> config;  ///< RunState::config, stored in checkpoints
  std::map<std::string, std::string> texts;   ///< RunState::texts, stored in checkpoints
  SampleUnit unit;                            ///< of losses and rates in records and evaluations
  std::int64_t batch = 1;                     ///< samples per step and rank
  std::int64_t epochs = 1;                    ///< passes over the training data, those of resumed runs included
  /// Training ends after this many steps, those of resumed runs included. 0: run() only writes the initial checkpoint;
  /// negative: no limit.
  std::int64_t max_steps = -1;
  std::uint64_t seed = 0;                            ///< of sample order, transform and dropout
  bool shuffle = true;                               ///< new sample order in each epoch; else the order of the data set
  std::shared_ptr<const SampleTransform> transform;  ///< of training samples; null: none
  Precision precision = Precision::fp32;             ///< as in PlanOptions, for training and validation
  ExchangeOptions exchange;                          ///< as in PlanOptions
  bool recompute = false;                            ///< as in PlanOptions
  SyncMode sync;                                     ///< by default synchronous
  std::shared_ptr<const Optimizer> optimizer = std::make_shared<Sgd>();  ///< by default without momentum
  Schedule schedule;                                                     ///< learning rate
  double target = 0;      ///< > 0: training ends when the validation metric is this value or better
  double time_limit = 0;  ///< > 0: training ends, with a checkpoint, before this many seconds from `start` have passed
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();  ///< when the time limit begins
  std::function<bool()> interrupted;  ///< called once per step: true ends the run with a checkpoint; may be empty

  /// Called before the first step of each epoch but the first. Returns the network for the following steps, or no value
  /// to keep the network. The result must depend only on the arguments, since a resumed run calls the function again,
  /// and must be the same on all ranks.
  std::function<std::optional<NetworkChange>(const RunState&, const Parameters&)> change_network;
  /// Makes the network of a checkpoint that was written after change_network had returned another network
  /// (Trainer::resume). Most programs find all they need in Topology::widths().
  std::function<Graph(const Topology&)> make_network;

  /// Folder; empty: none are written. Checkpoints of other runs that it holds are set aside before the first one is
  /// written (CheckpointFolder::set_aside).
  std::filesystem::path checkpoints;
  std::function<void()> before_checkpoint;  ///< called on rank 0; may throw to prevent the checkpoint or the moving
  int keep = 2;                             ///< number of the latest checkpoints to keep, besides best.h5
  /// A checkpoint is written every checkpoint_epochs epochs, every checkpoint_steps steps (0: never), and at the end.
  std::int64_t checkpoint_epochs = 1, checkpoint_steps = 0;

  /// Where the ranks survive losses (Communicator::survives_losses): training ends with RanksLost when more ranks than
  /// this have been lost. Negative: half of the ranks.
  int max_failures = -1;
  /// Where the ranks survive losses: all that are left throw RanksLost at the first loss, and none goes on. The caller
  /// begins anew with other ranks, from Trainer::last_copy().
  bool restart_on_loss = false;

  int loader_threads = 1, prefetch = 2;     ///< decoding threads; batches decoded ahead, besides the current one
  std::vector<int> cpus;                    ///< of these and the progress thread, as in LoaderOptions
  ProgressBy progress = ProgressBy::calls;  ///< who lets the exchange between ranks advance while this rank computes
  EvaluatorOptions evaluation;              ///< batch, precision, threads, prefetch, cpus and unit are taken from above
  int profiled_steps = 4;                   ///< steps that are measured for the milliseconds of Executor::rows()
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
/// That is so in synchronous training, and with SyncMode::Kind::lag, which delays every update by a step. In the other
/// modes (TrainerOptions::sync, docs/relaxed-modes.md) each rank's optimizer makes updates of the rank's own gradients,
/// batch normalization knows the rank's own samples, and parameters differ between ranks. validate(), end_epoch(),
/// save_checkpoint(), wait(), and the end of run() make them the same on all ranks first, and training goes on with
/// these. So checkpoints, validations and their number are a part of the run's course: a resumed run gives the bits of
/// the run that wrote the checkpoint and went on. Losses and votes of a step may be known some steps later. These modes
/// do the same as synchronous training on one rank. They are refused for fp16, whose loss scale all ranks must agree
/// on, for 16-bit ExchangeOptions::wire, and, with lag, where ranks can be lost.
///
/// Where ranks can be lost (Communicator::survives_losses), the others go on. All ranks agree before a step moves
/// parameters, and after each validation and checkpoint. If a rank was lost, the others make a group without it, and do
/// again what was interrupted, with the parameters of before. The samples of the epoch that are not yet done are dealt
/// to them, `batch` each per step, so that none is lost or seen twice; losses stay means over the samples of a step.
/// The learning rate follows the part of the epoch that is done. Networks with recurrent states do not go on: their
/// samples are dealt to a fixed number of ranks; nor does step(batch), whose batches the caller has dealt. There
/// RanksLost is thrown. With TrainerOptions::restart_on_loss RanksLost is thrown in any case.
///
/// Either run() does everything, or the caller writes the loop:
///
///   while (trainer.step()) {
///     if (trainer.epoch_done()) trainer.end_epoch();
///     ... trainer.last_step(), trainer.validate(), trainer.save_checkpoint() where the caller wants them ...
///   }
///
/// docs/adding-a-network.md has an example. run() is made of the same functions, so both give the same bits.
class Trainer {
 public:
  /// Makes observers, which must outlive the training.
  using FirstRankObservers = std::function<std::vector<TrainObserver*>()>;

  /// `validation` may be null. `communicator` null: this rank alone. All references must outlive the trainer. Throws
  /// InputError for data that are too small for the batch or for the ranks, and, on all ranks, where the ranks have
  /// different data (Dataset::digest), options or plans. Collective.
  Trainer(const Graph& graph, Parameters& parameters, const Dataset& training, const Dataset* validation,
          Communicator* communicator, TrainerOptions options);

  /// Continues from this checkpoint. Throws InputError, before anything changes, for a checkpoint of another network,
  /// optimizer or seed, for a damaged one, and, within an epoch, for a checkpoint of another global batch or other
  /// data. If the checkpoint lies in TrainerOptions::checkpoints, the next step moves the checkpoints of later steps
  /// out of the way, as CheckpointFolder::set_aside(). Collective.
  ///
  /// If the checkpoint's topology differs from the trainer's network and TrainerOptions::make_network is given,
  /// make_network makes the network, and the trainer replaces the parameters by those of that network. Throws
  /// InputError, naming the first node that differs, if the new network does not have the checkpoint's topology.
  void resume(const CheckpointReader& checkpoint);
  /// The same with the checkpoint of this path; throws also as CheckpointReader.
  void resume(const std::filesystem::path& checkpoint) { resume(CheckpointReader(checkpoint, false, communicator_)); }

  /// Replaces the observers by these, which must outlive the training.
  void observe(std::vector<TrainObserver*> observers) { observers_ = std::move(observers); }

  /// Trains until one of the StopReasons holds, with validations and checkpoints as the options say. Throws as step(),
  /// validate() and save_checkpoint(). Collective.
  ///
  /// `first_rank`: makes observers of rank 0 alone. Called on rank 0 before on_start(), and after a loss of rank 0 on
  /// the rank that is rank 0 then (TrainObserver::on_take_over).
  TrainResult run(std::vector<TrainObserver*> observers = {}, FirstRankObservers first_rank = {});

  /// Makes one optimizer step on the next batch of the training data. After the last step of an epoch the next call
  /// begins the next epoch. Returns false, without a step, if all epochs or max_steps are done, if the ranks voted to
  /// end in the previous step (signal or time limit), or if end_epoch() reached the target (stop_reason()).
  ///
  /// Throws RanksLost where more ranks were lost than TrainerOptions::max_failures, or ranks that the others cannot go
  /// on without. Throws Error on all ranks if the loss is not finite, naming the step and the first node with such a
  /// value. On a device that the host runs ahead of (GPUs), the next step() or wait() throws this error. Collective.
  bool step();
  /// Makes one optimizer step on the caller's batch instead of the next batch of the training data. The step counts in
  /// the epoch, for the learning rate and for dropout, as any other step. The batch has the fields of the training data
  /// with room for TrainerOptions::batch samples, and zeros beyond `count`. global_count is the sum of all ranks'
  /// counts, sample_offset is rank * TrainerOptions::batch. weight and indices may be null. The step is made even if
  /// stop_reason() has a value. Throws InputError for a batch that does not fit, and as step(). Collective.
  void step(const Batch& batch);
  /// Waits until the device has done all steps, all ranks have the same parameters, and the last checkpoint is written.
  /// Afterwards last_step() is the latest step. Throws as step() and save_checkpoint(). Collective.
  void wait();
  /// The latest step whose loss is known. On a device that the host runs ahead of, this is the step before the latest
  /// one, unless wait() was called; in some of the modes of TrainerOptions::sync an earlier one.
  const StepRecord& last_step() const { return last_step_; }
  /// Why step() returned false, or why the next step() will return false, as far as that is known.
  std::optional<StopReason> stop_reason() const { return stop_; }

  /// Whether all steps of the epoch are done and end_epoch() has not been called.
  bool epoch_done() const { return state_.step_in_epoch >= steps_of_epoch(); }
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

  const RunState& state() const { return state_; }  ///< after the latest step
  /// Where the time since the first step of this run went. On rank 0 of all ranks, elsewhere empty. Collective.
  RunTimes gather_times();
  /// What gather_times() found at the end of run(): from on_stop() of the observers on. None without other ranks.
  const std::optional<RunTimes>& run_times() const { return run_times_; }
  /// What the first steps have shown of ProgressBy::measured, in words; empty: nothing was measured.
  const std::string& progress_finding() const { return progress_->finding(); }
  /// The ranks lost so far, by their numbers when the trainer was made.
  const std::vector<Recovery::Lost>& lost() const { return lost_; }
  /// What the ranks were doing at the loss after which TrainerOptions::restart_on_loss has made this trainer throw;
  /// none: there was no loss in training.
  const std::optional<Recovery>& loss() const { return loss_; }
  /// The contents of the latest checkpoint, on every rank where ranks may be lost; null: there is none.
  const std::shared_ptr<const CheckpointCopy>& last_copy() const { return copy_; }
  /// The latest checkpoint that this run has written, or is writing, or was resumed from; empty: none.
  const std::filesystem::path& last_checkpoint() const { return last_saved_; }
  /// The executor of the current network; valid until the network changes or ranks are lost.
  const Executor& executor() const { return *executor_; }
  /// Steps of one epoch: training samples / global batch, rounded up.
  std::int64_t steps_per_epoch() const { return loader_->steps_per_epoch(); }
  /// The constructor's check of sizes, for callers that want the error before a plan is made. `batch`: per rank.
  /// `data`: the data set, for the message. Throws InputError for a batch below 1 and for fewer samples than
  /// ranks * batch.
  static void check_sizes(std::int64_t samples, std::int64_t batch, int ranks, const std::string& data);

 private:
  using Clock = std::chrono::steady_clock;
  static double since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

  /// A step that is queued on the device; its loss is not known yet.
  struct Launched {
    StepRecord record;
    std::int64_t epoch = 0, samples = 0;  ///< epochs done before it; of all ranks
    double loss = 0;                      ///< sum, where the host waits for it
    bool posted = false;                  ///< to losses_
  };

  void begin();
  std::vector<TrainObserver*> lead();  ///< makes the observers of rank 0, on rank 0
  std::optional<StopReason> limit_reached() const;
  void begin_next_epoch();
  void enter_epoch();  ///< before each step: what the first one of an epoch needs
  LoaderOptions loader_options() const;
  std::unique_ptr<Executor> make_executor(const Graph& graph) const;
  void check_sync() const;
  /// Whether the ranks' optimizers work apart in the epoch after `done` epochs.
  bool updates_locally(std::int64_t done) const;
  /// Changes plan and executor where the epoch after `done` epochs needs others (SyncMode::Kind::post_local).
  void adopt_mode(std::int64_t done);
  void make_synchronizer();
  /// Asks TrainerOptions::change_network where an epoch begins.
  void ask_for_change();
  /// Throws InputError for a checkpoint that this run cannot go on from, as far as the checkpoint's state tells.
  void check_resumable(const CheckpointReader& checkpoint) const;
  /// The checkpoint's network where that is not the trainer's: TrainerOptions::make_network makes it.
  std::optional<Graph> network_of(const CheckpointReader& checkpoint) const;
  /// Replaces the parameters' content, the plans and the executors.
  void set_network(Graph graph, Parameters parameters);
  void load_from_here();
  void check(const Batch& batch) const;
  /// The part of a step that the ranks make together, and that leaves parameters as they are: gradients and the vote.
  /// `start`: when the caller began to wait for the batch.
  Launched compute(const Batch& batch, Clock::time_point start);
  /// The rest of it.
  void apply(Launched now, const Batch& batch, Clock::time_point start);
  /// Adds the step's seconds to those of the epoch and the run.
  void count_times(Launched& now, const Batch& batch, Clock::time_point start);
  /// Tells of the step, or of the steps before it whose losses are there now, and does what the ranks have voted for.
  void finish_step(const Launched& now);

  /// Does `work`, which may communicate and can be done again, until all ranks that are left agree that it has come to
  /// its end. `what`: "a step".
  void together(const std::string& what, const std::function<void()>& work);
  /// Whether the ranks that are left can go on after a loss.
  bool survives() const;
  void recover(Recovery& recovery);
  void release_executor();
  /// What the loss of these ranks changes in the state. Throws RanksLost where they are too many.
  void leave_out(const LostRanks& lost, Recovery& recovery);
  void rebuild();
  /// Throws Error if the ranks that are left have different parameters.
  void compare_parameters();
  /// Steps of the epoch under way: as steps_per_epoch(), but for an epoch that more ranks have begun.
  std::int64_t steps_of_epoch() const;
  std::int64_t samples_in_epoch() const;  ///< of the epoch under way, done
  double epoch_fraction() const;          ///< of the epoch under way, done
  /// Waits for all steps, and for what ranks exchange beside them; the ranks are equal then.
  void settle();
  /// Hands the losses of the steps under way to losses_, but for the latest `left`, which the device has not done.
  void post_losses(std::size_t left);
  /// Takes the losses of the oldest steps under way until `left` are.
  void retire(std::size_t left);
  void retire(Launched& step, const Executor::StepResult& result);
  void take_vote();
  void tell_step(const StepRecord& record);
  void gather_states();
  void keep_loss_scale();
  std::shared_ptr<const CheckpointCopy> copy(bool best) const;
  /// The first time that this run writes into the folder of checkpoints: sets aside those that it does not go on from.
  void claim_folder();
  /// Waits until rank 0 has written its checkpoint. Rank 0 tells the others again and again that the writing goes on,
  /// so that their watchdogs let it; while the disk takes nothing, rank 0 is silent. Collective.
  void await_writer();
  /// Waits for the checkpoint that is being written. Collective.
  void finish_checkpoint();
  void tell_checkpoint(const std::optional<CheckpointWriter::Written>& written);
  void restore_states(const RunState& loaded);
  /// As Executor::first_non_finite(), of the latest step.
  std::string first_non_finite();
  [[noreturn]] void stop_for(const Launched& step, const std::string& what);
  /// Whether the network with metric (or, without metrics, loss) `a` is better than the one with `b`.
  bool better(double a, double b) const {
    const auto* judge = options_.evaluation.judge();
    return judge ? judge->better(a, b) : a < b;
  }
  bool is_root() const { return !communicator_ || communicator_->rank() == 0; }
  double position() const;
  double units(std::int64_t samples) const { return static_cast<double>(samples * options_.unit.per_sample); }
  template <class Call>
  void tell(Call&& call) {
    for (auto* o : observers_) call(*o);
  }

  const Graph* graph_;
  std::unique_ptr<Graph> own_graph_;  ///< after a change of the network
  Parameters& parameters_;
  const Dataset& training_;
  Communicator* communicator_;
  TrainerOptions options_;
  std::vector<std::string> moments_;
  std::optional<ProcessGrid> grid_;  ///< all ranks share the batch; none: this rank alone
  bool local_ = false;               ///< the executor's plan works with this rank's gradients alone
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Synchronizer> synchronizer_;  ///< of plans that are local_
  std::optional<LossMean> losses_;              ///< of plans that are local_
  std::optional<Loader> loader_;
  std::optional<InputPipeline> feed_;  ///< ends before the batches that it reads
  std::unique_ptr<Evaluator> evaluator_;
  CheckpointWriter writer_;  ///< at work on rank 0
  std::shared_ptr<const CheckpointCopy>
      copy_;  ///< of the last checkpoint: on rank 0, or where ranks may be lost on all
  std::optional<ProgressChoice> progress_;
  StopVote vote_;
  RunState state_;
  std::filesystem::path resumed_from_, last_saved_;
  std::vector<TrainObserver*> observers_;
  FirstRankObservers first_rank_;  ///< empty: none, or made on this rank
  std::optional<StopReason> stop_;
  bool begun_ = false;
  bool owns_folder_ = false;  ///< claim_folder() has been called since the run began, on rank 0
  std::optional<std::pair<std::int64_t, std::int64_t>> loader_at_;  ///< epoch and step of its next batch
  StepRecord last_step_;
  std::vector<float> weights_;    ///< of a batch that brings none
  const Batch* batch_ = nullptr;  ///< of the latest step, while that is under way
  ops::StepParams step_params_;   ///< of the latest step
  std::chrono::steady_clock::time_point run_start_;
  double seconds_before_ = 0;
  std::int64_t saved_step_ = -1, run_steps_ = 0, steps_before_ = 0;
  bool runs_ahead_;  ///< steps are queued while the device is at work on the one before
  std::vector<Launched> launched_;
  double last_rate_ = 0;
  StopVote::Reason decision_ = StopVote::Reason::none;  ///< of the step's vote
  std::optional<EpochRecord> last_epoch_;
  ops::LossScale kept_scale_;  ///< while there is no executor
  std::vector<Recovery::Lost> lost_;
  std::optional<Recovery> loss_;
  TimeSplit epoch_seconds_, run_seconds_;
  WaitSplit waits_;
  double run_validation_ = 0, run_checkpoints_ = 0;  ///< seconds
  std::optional<RunTimes> run_times_;
  double epoch_wall_ = 0, validation_seconds_ = 0;
  std::int64_t epoch_samples_ = 0;  ///< of this run
};

}  // namespace keelson
