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
#include "engine/train/checkpoint.hpp"
#include "engine/train/checkpoint_reader.hpp"
#include "engine/train/evaluator.hpp"
#include "engine/train/observer.hpp"
#include "engine/train/stop_vote.hpp"

namespace keelson {

/// Another network to train from here on.
struct NetworkChange {
  Graph graph;         ///< with the inputs, the loss and the output that the data and the metrics need
  ParameterMaps maps;  ///< as Parameters::remap() takes them; channel_maps() makes them
};

struct TrainerOptions {
  std::string network;                        ///< name, stored in checkpoints
  std::map<std::string, std::string> config;  ///< stored in checkpoints
  std::map<std::string, std::string> texts;   ///< stored in checkpoints
  SampleUnit unit;                            ///< of losses and rates in records and evaluations
  std::int64_t batch = 1;                     ///< per rank
  std::int64_t epochs = 1;
  std::int64_t max_steps =
      -1;                  ///< ends after this many steps in all; 0: only writes the initial checkpoint; < 0: no limit
  std::uint64_t seed = 0;  ///< of sample order, transform and dropout
  bool shuffle = true;
  std::shared_ptr<const SampleTransform> transform;  ///< of training samples; null: none
  Precision precision = Precision::fp32;             ///< as in PlanOptions, for training and validation
  std::shared_ptr<const Optimizer> optimizer = std::make_shared<Sgd>();
  Schedule schedule;
  double target = 0;      ///< > 0: ends when the validation metric is this or better
  double time_limit = 0;  ///< > 0: ends, with a checkpoint, before this many seconds from `start` have passed
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  std::function<bool()> interrupted;  ///< asked once per step: true ends the run with a checkpoint

  /// Asked before the first step of each epoch but the first: the network of the steps to come, or nothing, where it
  /// stays. Must depend on its arguments alone (a resumed run asks again) and give the same on all ranks.
  std::function<std::optional<NetworkChange>(const RunState&, const Parameters&)> change_network;
  /// Makes the network of a checkpoint that change_network has made before (Trainer::resume); Topology::widths() is
  /// what most need for that.
  std::function<Graph(const Topology&)> make_network;

  std::filesystem::path checkpoints;                         ///< folder; empty: none are written
  std::function<void()> before_checkpoint;                   ///< on rank 0: throws where none may be written
  int keep = 2;                                              ///< so many of the latest, besides best.h5
  std::int64_t checkpoint_epochs = 1, checkpoint_steps = 0;  ///< every so many; 0: not for this; the last state always

  int loader_threads = 1, prefetch = 2;
  std::vector<int> cpus;        ///< of the decoding threads, as in LoaderOptions
  EvaluatorOptions evaluation;  ///< its batch, threads, prefetch, cpus and unit are those above
  int profiled_steps = 4;       ///< for the milliseconds of Plan::rows()
};

struct TrainResult {
  StopReason reason;
  RunState state;
};

/// Synchronous data-parallel training of a graph: input fields by name from a data set, its loss minimised, its
/// prediction judged. All ranks make the same calls. With the same seed and global batch, losses and parameters do not
/// depend on the number of ranks but for fp32 summation order; a resumed run continues bit for bit.
///
/// Either run() does everything, or the caller owns the loop:
///
///   while (trainer.step()) {
///     if (trainer.epoch_done()) trainer.end_epoch();
///     ... trainer.last_step(), trainer.validate(), trainer.save_checkpoint() where the caller wants them ...
///   }
///
/// docs/adding-a-network.md has an example. run() is made of the same functions, so both give the same bits.
class Trainer {
 public:
  /// Throws InputError for data too small for the batch or for the ranks, and, on all ranks, where the ranks have
  /// different data (Dataset::digest), options or plans. `validation` may be null; `communicator` null: alone. All
  /// references must outlive the trainer. Collective.
  Trainer(const Graph& graph, Parameters& parameters, const Dataset& training, const Dataset* validation,
          Communicator* communicator, TrainerOptions options);

  /// Continues from this checkpoint. Throws InputError for one of another network, optimizer, seed or, within an epoch,
  /// of another global batch or other data.
  ///
  /// Where TrainerOptions::make_network is given and the checkpoint's topology is not that of the trainer's network,
  /// make_network makes the network, and the parameters that the trainer was given become those of that network. A
  /// network that differs from the topology is refused, naming the first node.
  void resume(const CheckpointReader& checkpoint);
  void resume(const std::filesystem::path& checkpoint) { resume(CheckpointReader(checkpoint, false, communicator_)); }

  /// Tells these observers, and no others, what happens from now on. They must outlive the training.
  void observe(std::vector<TrainObserver*> observers) { observers_ = std::move(observers); }

  /// Trains until something ends it (StopReason), with validations and checkpoints as the options say. Throws as
  /// step(), validate() and save_checkpoint() do. Collective.
  TrainResult run(std::vector<TrainObserver*> observers = {});

  /// One optimizer step on the next batch of the training data. After the last step of an epoch it begins the next one.
  /// False, and no step made: all epochs are done, or max_steps, or a vote for a signal or the time limit was cast in
  /// the step before, or end_epoch() reached the target (stop_reason()).
  ///
  /// A loss that is not finite throws Error, on all ranks, naming the step and the first node that made it. On a device
  /// that the host runs ahead of (GPUs) the loss is known, and thrown for, in the next step or in wait(). Collective.
  bool step();
  /// One optimizer step on a batch of the caller's own, in the place of the next batch of the training data: it counts
  /// in the epoch, for the learning rate and for dropout. Fields as of the training data, with room for
  /// TrainerOptions::batch samples, zeros beyond `count`; global_count is that of all ranks, sample_offset is
  /// rank * TrainerOptions::batch; weight and indices may be null. Makes the step whatever stop_reason() is. Throws
  /// InputError for a batch that does not fit, and as step(). Collective.
  void step(const Batch& batch);
  /// Waits until the device has done all steps: last_step() is the latest one then. Collective.
  void wait() { retire(0); }
  /// The latest step whose loss is known: on a device that the host runs ahead of, without wait(), the one before the
  /// latest.
  const StepRecord& last_step() const { return last_step_; }
  /// Why the next step() makes no step, where that is known; why step() returned false.
  std::optional<StopReason> stop_reason() const { return stop_; }

  /// Whether all steps of the epoch are done and end_epoch() has not been called.
  bool epoch_done() const { return state_.step_in_epoch >= steps_per_epoch(); }
  /// Ends the epoch: validates, if there is validation data, and counts the epoch as done. A validation that reaches
  /// TrainerOptions::target ends the training. Throws Error before epoch_done(). Collective.
  EpochRecord end_epoch();
  /// Evaluates on the validation data, at any step; changes no state of the training. Throws Error where there is no
  /// such data. Collective.
  Evaluation validate();
  /// Writes step-<n>.h5, and makes best.h5 another name of it. Nothing where the options name no folder. Collective.
  void save_checkpoint(bool best = false);

  const RunState& state() const { return state_; }
  /// Valid until the network changes.
  const Executor& executor() const { return *executor_; }
  std::int64_t steps_per_epoch() const { return loader_.steps_per_epoch(); }
  /// What the constructor checks, without making a plan.
  static void check_sizes(std::int64_t samples, std::int64_t batch, int ranks, const std::string& data);

 private:
  /// A step that is queued on the device; its loss is not known yet.
  struct Launched {
    StepRecord record;
    std::int64_t epoch = 0, samples = 0;  ///< epochs done before it; of all ranks
  };

  void begin();
  std::optional<StopReason> limit_reached() const;
  void begin_next_epoch();
  std::unique_ptr<Executor> make_executor(const Graph& graph) const;
  void compare_plans() const;
  /// Asks TrainerOptions::change_network where an epoch begins.
  void ask_for_change();
  void make_network_of(const CheckpointReader& checkpoint);
  /// Replaces the parameters' content, the plans and the executors.
  void set_network(const Graph& graph, Parameters parameters);
  void load_from_here();
  void check(const Batch& batch) const;
  /// One step, its vote and its record. `start`: when the caller began to wait for the batch.
  void train_on(const Batch& batch, std::chrono::steady_clock::time_point start);
  Launched launch(const Batch& batch);
  /// Takes the losses of the oldest steps under way until `left` are.
  void retire(std::size_t left);
  void retire(Launched& step, const Executor::StepResult& result);
  void tell_step(const StepRecord& record);
  void gather_states();
  void restore_states(const RunState& loaded, const std::filesystem::path& checkpoint);
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

  Parameters& parameters_;
  const Dataset& training_;
  Communicator* communicator_;
  TrainerOptions options_;
  std::vector<std::string> moments_;
  std::optional<ProcessGrid> grid_;  ///< all ranks share the batch; none: this rank alone
  std::unique_ptr<Executor> executor_;
  Loader loader_;
  std::optional<InputPipeline> feed_;  ///< ends before the batches that it reads
  std::unique_ptr<Evaluator> evaluator_;
  CheckpointFolder folder_;
  StopVote vote_;
  RunState state_;
  std::filesystem::path resumed_from_, last_saved_;
  std::vector<TrainObserver*> observers_;
  std::optional<StopReason> stop_;
  bool begun_ = false;
  std::optional<std::pair<std::int64_t, std::int64_t>> loader_at_;  ///< epoch and step of its next batch
  StepRecord last_step_;
  std::vector<float> weights_;  ///< of a batch that brings none
  std::chrono::steady_clock::time_point run_start_;
  double seconds_before_ = 0;
  std::int64_t saved_step_ = -1, run_steps_ = 0;
  bool runs_ahead_;  ///< steps are queued while the device is at work on the one before
  std::vector<Launched> launched_;
  double last_rate_ = 0;
  TimeSplit epoch_seconds_;
  double epoch_wall_ = 0, validation_seconds_ = 0;
  std::int64_t epoch_samples_ = 0;  ///< of this run
};

}  // namespace keelson
