#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/data/loader.hpp"
#include "engine/graph/channel_maps.hpp"
#include "engine/optim/schedule.hpp"
#include "engine/optim/sgd.hpp"
#include "engine/plan/plan.hpp"
#include "engine/train/checkpoint/run_checkpoints.hpp"
#include "engine/train/evaluator.hpp"
#include "engine/train/progress_choice.hpp"
#include "engine/train/samples/sample_pruning.hpp"
#include "engine/train/sync/sync_mode.hpp"

namespace keelson {

/// How a network is trained.
struct TrainerOptions {
  std::string network;                        ///< name, stored in checkpoints
  std::map<std::string, std::string> config;  ///< RunState::config, stored in checkpoints
  std::map<std::string, std::string> texts;   ///< RunState::texts, stored in checkpoints
  SampleUnit unit;                            ///< of losses and rates in records and evaluations
  std::int64_t batch = 1;                     ///< samples per step and replica
  /// Gradient accumulation: forward and backward passes of a step (PlanOptions::micro_batch_count).
  std::int64_t micro_batches = 1;
  /// The ranks of a replica, which take the same samples: extents of the process grid along space, channel or stage,
  /// while data gets the ranks that are left. The axis ensemble throws InputError. A rank computes a part of each
  /// sample and of the channels of deep layers (spatial_parts(), channel_layers()), a part of the layers' channels
  /// (channel_parts()), or some of the layers (stage_parts()).
  /// The number of ranks must be a multiple of the replica's. More than one rank only in synchronous training, and
  /// without reproducible sums; several along channel or stage also without `change_network`, and on ranks that do not
  /// survive losses.
  ProcessGrid::Extents replica;
  std::vector<std::string> stage_starts;  ///< as PlanOptions::stage_starts, for training and validation
  std::int64_t epochs = 1;                ///< passes over the training data, those of resumed runs included
  /// Training ends after this many steps, those of resumed runs included. 0: run() only writes the initial checkpoint;
  /// negative: no limit.
  std::int64_t max_steps = -1;
  std::uint64_t seed = 0;  ///< of sample order, transform and dropout
  bool shuffle = true;     ///< new sample order in each epoch; else the order of the data set
  /// Samples have the weights bag_weight(seed, sample): the loss of a step is the sum of w l divided by the sum of w,
  /// of all ranks' samples, and batch normalization weighs them alike. A step whose weights are all 0 has a loss and
  /// gradients of 0. Batches of the caller bring weights of their own.
  bool bag = false;
  /// Epochs leave samples out. Throws InputError with `bag`, with a SyncMode in which ranks update alone, for networks
  /// with recurrent states, whose samples follow one another, and for PruneRule::kakurenbo with replicas of several
  /// ranks. Batches of the caller are refused.
  PruneOptions prune;
  std::shared_ptr<const SampleTransform> transform;  ///< of training samples; null: none
  Precision precision = Precision::fp32;             ///< as in PlanOptions, for training and validation
  ExchangeOptions exchange;                          ///< as in PlanOptions
  bool recompute = false;                            ///< as in PlanOptions
  /// Every so many steps the noise scale of the gradient is measured (StepRecord::noise); 0: never. Parameters are the
  /// same, to the bit. The averages are in checkpoints. Throws InputError on one rank with one micro-batch, with
  /// replicas of several ranks, if not synchronous, and with `prune`.
  std::int64_t noise_scale = 0;
  SyncMode sync;                                                         ///< by default synchronous
  std::shared_ptr<const Optimizer> optimizer = std::make_shared<Sgd>();  ///< by default without momentum
  Schedule schedule;                                                     ///< learning rate
  /// The learning rate of the next step, in place of `schedule`, a function of its argument alone; empty: `schedule`.
  /// Called on every rank before each step.
  std::function<double(const RunState&)> learning_rate;
  double target = 0;      ///< > 0: training ends when the validation metric is this value or better
  double time_limit = 0;  ///< > 0: training ends, with a checkpoint, before this many seconds from `start` have passed
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();  ///< when the time limit begins
  std::function<bool()> interrupted;  ///< called once per step: true ends the run with a checkpoint; may be empty

  /// Called before the first step of each epoch but the first. Returns the network for the following steps, or no value
  /// to keep the network. The function may also undo its last change (NetworkChange::Kind), and is then called again.
  /// The result must depend only on the arguments, since a resumed run calls the function again, and must be the same
  /// on all ranks.
  std::function<std::optional<NetworkChange>(const RunState&, const Parameters&)> change_network;
  /// Makes the network of a checkpoint that was written after change_network had returned another network
  /// (Trainer::resume). Empty, with change_network: the trainer's network, with_topology() of the checkpoint's.
  std::function<Graph(const Topology&)> make_network;

  CheckpointOptions checkpoints;  ///< where and when checkpoints are written

  /// If the ranks survive losses (Communicator::survives_losses): training ends with RanksLost when more ranks than
  /// this have been lost. Negative: half of the ranks.
  int max_failures = -1;
  /// If the ranks survive losses: all ranks that are left throw RanksLost at the first loss, and none goes on. The
  /// caller begins again with other ranks, from Trainer::last_copy().
  bool restart_on_loss = false;

  /// What each rank keeps of the training data, near the processor, and of the validation data in what room is left.
  /// Each rank keeps validation samples that it evaluates itself. The training samples of a step go to the ranks that
  /// keep them; with reproducible sums, and in the order of the data set (`shuffle`), they go where they would go
  /// without. So a rank's samples, and with them dropout masks and the rounding of sums, are others than without a
  /// cache, but the samples of a step are the same.
  CacheOptions cache;
  LoaderThreads threads;                    ///< of training and validation; the progress thread has the same CPUs
  ProgressBy progress = ProgressBy::calls;  ///< who lets the exchange between ranks advance while this rank computes
  MetricOptions evaluation;                 ///< what the validations measure
  int profiled_steps = 4;                   ///< steps that are measured for the milliseconds of Executor::rows()

  /// PlanOptions::whole_parameters as far as it follows from these options, for training and validation. On ranks that
  /// survive losses parameters are whole, too, since a part would be lost with its rank.
  bool whole_parameters() const;
  /// The plan's options as far as they follow from these options: without ranks, for the optimizer that is alive as
  /// long as these options.
  PlanOptions plan() const;
  /// The names of the optimizer's state arrays in checkpoints, with the array that SyncMode::Kind::lag adds.
  std::vector<std::string> moments() const;
};

}  // namespace keelson
