#pragma once

#include <filesystem>
#include <string>

#include "engine/train/evaluator.hpp"
#include "engine/train/records.hpp"
#include "engine/train/run_state.hpp"

namespace keelson {

/// Why training ended.
enum class StopReason { epochs_done, max_steps, target_reached, time_limit, interrupted };
std::string to_string(StopReason reason);

/// Is told what happens in training; the trainer itself prints nothing and writes only checkpoints. Calls come from the
/// thread that trains, on every rank that has an observer (usually rank 0 alone).
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  /// Before the first step; `resumed_from` is empty for a new run. RunState::observed is what before_checkpoint() left
  /// in that checkpoint.
  virtual void on_start(const RunState&, const std::filesystem::path& /*resumed_from*/) {}
  /// After every step; rates and seconds are of this step.
  virtual void on_step(const RunState&, const StepRecord&) {}
  /// After every step is queued, before its on_step(); the batch is this rank's, in host memory, and valid during the
  /// call.
  virtual void on_batch(const RunState&, const Batch&) {}
  virtual void on_validation_start(const RunState&) {}
  /// After every epoch; `validation` is null without validation data.
  virtual void on_epoch(const RunState&, const EpochRecord&, const Evaluation* /*validation*/) {}
  /// After TrainerOptions::change_network has given another network, before its first step; on all observers alike.
  virtual void on_network_change(const RunState&, const Graph&) {}
  /// Before a checkpoint is written: may set entries of RunState::observed, which are stored, to the same values on all
  /// ranks. An observer that every rank has may make collective calls here and in on_validation_start().
  virtual void before_checkpoint(RunState&) {}
  virtual void on_checkpoint(const RunState&, const std::filesystem::path&, bool /*best*/) {}
  /// At the end of Trainer::run().
  virtual void on_stop(const RunState&, StopReason) {}
};

}  // namespace keelson
