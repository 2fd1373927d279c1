#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "engine/execute/executor.hpp"
#include "engine/train/records.hpp"
#include "engine/train/sync/loss_mean.hpp"

namespace keelson {

/// A step that is queued on the device, or whose loss other ranks have not sent yet.
struct PendingStep {
  StepRecord record;                  ///< complete but for the loss
  std::int64_t epoch = 0;             ///< epochs done before the step
  double weight = 0;                  ///< Batch::total_weight()
  double loss = 0;                    ///< mean over the samples, if the host waits for it
  bool posted = false;                ///< the exchange of the loss between ranks has begun
  std::vector<std::int64_t> samples;  ///< of this rank, if the losses of samples are wanted (SamplePruning)
};

/// Steps whose losses are not known yet, the oldest first: those that a device still works on, and those whose losses
/// are still exchanged because ranks may be some steps apart (Synchronizer::slack).
class PendingSteps {
 public:
  /// Does what a known loss asks for.
  using Finish = std::function<void(PendingStep&, const Executor::StepResult&)>;

  /// `host_runs_ahead`: the host queues a step while the device is at work on the step before.
  explicit PendingSteps(bool host_runs_ahead) : ahead_(host_runs_ahead ? 1 : 0) {}
  /// For steps to come, when no step is pending. `ranks`: those whose optimizers work apart and whose losses are
  /// exchanged here, up to `slack` steps late; null: the plan exchanges the loss.
  void regroup(Communicator* ranks, std::size_t slack);

  /// Adds the step that was queued last. Exchanges losses and finishes steps as far as the step lets others be known.
  void add(const PendingStep& step, Executor& executor, const Finish& finish);
  /// Finishes the oldest steps, waiting for their losses, until at most `left` steps are pending.
  void finish_all_but(std::size_t left, Executor& executor, const Finish& finish);

 private:
  void post_losses(std::size_t left, Executor& executor);

  std::size_t ahead_;  ///< steps whose losses the device has not computed
  std::size_t slack_ = 0;
  std::optional<LossMean> losses_;  ///< of ranks whose optimizers work apart
  std::deque<PendingStep> steps_;
};

}  // namespace keelson
