#pragma once

#include <filesystem>
#include <string>

#include "engine/train/checkpoint/run_state.hpp"
#include "engine/train/evaluator.hpp"
#include "engine/train/records.hpp"

namespace keelson {

/// Why training ended.
enum class StopReason { epochs_done, max_steps, target_reached, time_limit, interrupted, stopped };
std::string to_string(StopReason reason);

/// The trainer calls its observers when something happens in training. The trainer itself prints nothing and writes
/// only checkpoints. Calls come from the thread that trains, on every rank that has an observer (usually rank 0 alone).
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  /// Before the first step. `resumed_from`: the checkpoint; empty for a new run. RunState::observed has the entries
  /// that before_checkpoint() set for that checkpoint.
  virtual void on_start(const RunState&, const std::filesystem::path& /*resumed_from*/) {}
  /// Before the first step of each epoch; for a run resumed within an epoch not before the next one.
  virtual void on_epoch_start(const RunState&) {}
  /// After every step. On a device that the host runs ahead of, the call comes when the loss of the step is known.
  virtual void on_step(const RunState&, const StepRecord&) {}
  /// After a step is queued and before its on_step(). The batch is that of this rank, in host memory, and valid during
  /// the call. On a rank that waits (TrainingRanks) the batch has no fields, and `count` is 0.
  virtual void on_batch(const RunState&, const Batch&) {}
  /// Before each validation, whether at the end of an epoch or by Trainer::validate().
  virtual void on_validation_start(const RunState&) {}
  /// After every epoch. `validation` is null without validation data.
  virtual void on_epoch(const RunState&, const EpochRecord&, const Evaluation* /*validation*/) {}
  /// After TrainerOptions::change_network has returned another network, before the first step of that network. `text`:
  /// NetworkChange::text.
  virtual void on_network_change(const RunState&, const Graph&, const std::string& /*text*/) {}
  /// When all ranks have agreed that what they did together since the last call (a step, a validation, a checkpoint)
  /// has come to its end. Until then it may be done again, with fewer ranks: calls that belong to it then come again.
  virtual void on_agreement() {}
  /// After a loss of ranks, when what was interrupted has been done again by the others.
  virtual void on_ranks_lost(const RunState&, const Recovery&) {}
  /// Instead of on_start(), for observers that a rank makes which a loss has made the first one. `last_epoch`: that of
  /// the last on_epoch(), which the first rank of then may not have come to; null: none.
  virtual void on_take_over(const RunState&, const EpochRecord* /*last_epoch*/) {}
  /// Before a checkpoint is written. An observer may set entries of RunState::observed here, to the same values on all
  /// ranks; the checkpoint stores them. Observers that every rank has may make collective calls here and in
  /// on_validation_start().
  virtual void before_checkpoint(RunState&) {}
  /// After a checkpoint is written to this path. `best`: best.h5 is now this checkpoint.
  virtual void on_checkpoint(const RunState&, const std::filesystem::path&, bool /*best*/) {}
  /// After checkpoints that this run does not go on from have moved out of the way, into this folder
  /// (CheckpointFolder::set_aside): before the first step or end of an epoch of a run that was resumed within the
  /// folder of checkpoints, else before the first checkpoint. On rank 0.
  virtual void on_set_aside(const RunState&, const std::filesystem::path& /*folder*/) {}
  /// At the end of Trainer::run().
  virtual void on_stop(const RunState&, StopReason) {}
};

}  // namespace keelson
