#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/train/fed_executor.hpp"
#include "engine/train/records.hpp"
#include "engine/train/run_clock.hpp"
#include "engine/train/sync/synchronizer.hpp"
#include "engine/train/training_batches.hpp"

namespace keelson {

/// The network that is trained now, on the ranks that train it now: plan, executor, input pipeline, and the exchange
/// between ranks whose optimizers work apart. One function makes all of it: at the beginning, and again when the
/// network, the group of ranks or the kind of the exchange changes.
class TrainingSession {
 public:
  /// All references must outlive the session. Throws as Executor. Collective.
  TrainingSession(const Graph& graph, Parameters& parameters, const TrainingBatches& batches,
                  const TrainingRanks& ranks, const TrainerOptions& options);

  /// Destroys plan, executor, pipeline and synchronizer, when the device has done its work. Keeps the loss scale.
  /// Before the memory of the parameters goes; does nothing if all is released.
  void release();
  /// The same, and destroys the groups of ranks, too, before the group that they are parts of goes.
  void release_group();
  /// Releases all of the old network, and replaces the content of the parameters. Does not communicate; make() makes
  /// the rest.
  void replace_network(Graph graph, Parameters parameters);
  /// Makes plan, executor, pipeline and synchronizer of the network for the ranks that train now; nothing on a rank
  /// that waits. Collective.
  void make();
  /// Makes all anew for the ranks that train now; nothing on a rank that waits. Collective.
  void regroup();
  /// Makes all anew for ranks whose optimizers work apart (true) or together (SyncMode::Kind::post_local). Collective.
  void set_apart(bool apart);
  /// Makes the synchronizer anew, after the parameters have got other values. Collective.
  void make_synchronizer();

  bool is_released() const { return !network_; }   ///< there is no executor
  bool has_states() const;                         ///< whether the network has recurrent states
  Executor& executor();                            ///< throws Error after release(), also if making it anew failed
  const Executor& executor() const;                ///< the same
  const Graph& graph() const { return *graph_; }   ///< the network
  const FieldRows& rows() const { return rows_; }  ///< of the data's fields that the plan reads on this rank
  /// The ranks whose optimizers work apart now, each with the gradients of its own samples; null: all work together.
  Communicator* ranks_apart() const { return apart_ ? ranks_.training() : nullptr; }
  /// Whether ranks_apart() should be so in the epoch after `epochs` epochs.
  bool works_apart(std::int64_t epochs) const;
  std::size_t slack() const { return synchronizer_ ? synchronizer_->slack() : 0; }  ///< Synchronizer::slack()

  /// Forward and backward pass of a step. The exchange of gradients between ranks may still go on afterwards. Adds the
  /// seconds of the parts, which `watch` measures in laps.
  void compute_gradients(const Batch& batch, ops::StepParams params, bool first_of_epoch, Stopwatch& watch,
                         TimeSplit& seconds);
  /// Moves the parameters by the gradients, and carries recurrent states over. Nothing on a rank that waits, as
  /// finish_input().
  void update();
  /// What the latest step, after update(), tells of the noise of its gradient; no value if the step was not measured.
  std::optional<NoiseScale> measured_noise() const;
  double take_exchange_seconds();  ///< as Executor; 0 on a rank that waits
  /// If the plan checks gradients, the executor's; on a rank that waits, the one that was last set.
  ops::LossScale loss_scale() const;
  void set_loss_scale(const ops::LossScale& scale);  ///< for the executor of now, or the next one
  /// After the optimizer has moved the parameters: exchanges them, if ranks work apart. `step`: steps done, this one
  /// included.
  void exchange_parameters(std::int64_t step);
  void finish_input();  ///< InputPipeline::finish()
  /// Waits for the exchange of gradients and parameters. The parameters of all ranks are equal afterwards. Collective.
  void make_equal();
  /// As Executor::first_non_finite(), of the latest step. If the host runs ahead, of its last micro-batch alone.
  std::string first_non_finite();

  /// Puts loss scale and, within an epoch, recurrent states of all ranks into the state, for a checkpoint: the states
  /// on rank 0 or, with `on_every_rank`, on all. Collective.
  void store(RunState& state, bool on_every_rank) const;
  void restore(const RunState& state);  ///< the opposite of store()

 private:
  std::unique_ptr<Graph> own_graph_;  ///< after a change of the network
  const Graph* graph_;
  Parameters& parameters_;
  const TrainingBatches& batches_;
  const TrainingRanks& ranks_;
  const TrainerOptions& options_;
  FieldRows rows_;
  std::optional<ProcessGrid> grid_;  ///< data x space, all ranks that train share the batch; none: this rank alone
  bool apart_;                       ///< the plan works with the gradients of this rank alone
  std::optional<FedExecutor> network_;
  std::unique_ptr<Synchronizer> synchronizer_;  ///< if ranks work apart
  std::optional<ops::LossScale> loss_scale_;    ///< of the executor that was released
  std::vector<Pass> passes_;                    ///< of a step of this executor
  std::int64_t steps_ = 0;                      ///< of this executor
  const Batch* batch_ = nullptr;                ///< of the latest step, while that is under way
  ops::StepParams step_params_;                 ///< of the latest step
  bool measured_ = false;                       ///< the noise of the latest step's gradient
  bool was_made_ = false;                       ///< there has been a plan before
};

}  // namespace keelson
