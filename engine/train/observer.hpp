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
  /// Before the first step; `resumed_from` is empty for a new run.
  virtual void on_start(const RunState&, const std::filesystem::path& /*resumed_from*/) {}
  /// After every step; rates and seconds are of this step.
  virtual void on_step(const RunState&, const StepRecord&) {}
  virtual void on_validation_start(const RunState&) {}
  /// After every epoch; `validation` is null without validation data.
  virtual void on_epoch(const RunState&, const EpochRecord&, const Evaluation* /*validation*/) {}
  virtual void on_checkpoint(const RunState&, const std::filesystem::path&, bool /*best*/) {}
  virtual void on_stop(const RunState&, StopReason) {}
};

}  // namespace keelson
