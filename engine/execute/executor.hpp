#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/ops/loss_scale.hpp"
#include "engine/ops/step_params.hpp"
#include "engine/plan/plan.hpp"

namespace keelson {

/// Memory and execution instance of an executor.
struct ExecutorOptions {
  /// Memory for values between calls; null: the arena of the parameters (Parameters::arena). Executors that take turns
  /// may share an arena, also executors of different networks.
  std::shared_ptr<Arena> arena;
  /// The instance that does the executor's work; null: the current instance (Device::current_instance()), which is the
  /// device's main instance if no InstanceScope is alive. The instance must have as many threads as the instance that
  /// was current when the plan was made. Executors that run at the same time need an instance each.
  std::shared_ptr<ExecutionInstance> instance;
};

/// Runs a plan on parameters. An executor holds the memory of inputs, states, gradients and the loss, the calls bound
/// to that memory, their captured graphs and their times. Several executors, of one plan or of many, may be alive and
/// take turns, step by step, on the same parameters or on different ones. A step does not allocate memory and makes no
/// decisions. Results are deterministic.
///
///   executor.input("x") <- data;  executor.forward(params);  executor.backward();  executor.update();
///
/// If a step has several micro-batches (Plan::micro_batches), inputs, forward() and backward() are for one micro-batch:
/// they are repeated for each micro-batch, in the order of Plan::passes(), before update(). A plan for several stages
/// has several micro-batches in flight (Plan::in_flight): each has inputs and an arena of its own, which a later
/// micro-batch takes when backward() has ended.
///
/// An output is valid until the next forward() of any executor that shares the arena. The plan, the parameters and
/// their context must outlive the executor.
///
/// An executor is for one host thread at a time. Executors that share neither parameters nor arena may run in several
/// host threads at the same time, each on an execution instance of its own. The results have the same bits as if the
/// executors had run one after the other. Executors that share a plan take turns: forward(), backward() and update() of
/// one executor wait for those of another. Executors that should run at the same time need different plans. Executors
/// on different instances that share parameters or an arena may take turns in one host thread: the device orders their
/// work. Host code that works on an executor's tensors needs an InstanceScope of the executor's instance.
class Executor {
 public:
  /// Parameters without memory get memory here, in the plan's layouts. Throws Error for parameters in other layouts
  /// than the plan's, OutOfMemory if the device has no room.
  Executor(const Plan& plan, Parameters& parameters, const ExecutorOptions& options = {});
  /// The same with a plan that the executor makes and owns. Also throws as the constructor of Plan, and is collective
  /// if that is.
  Executor(const Graph& graph, Parameters& parameters, const PlanOptions& options);
  ~Executor();
  Executor(const Executor&) = delete;

  const Plan& plan() const;                              ///< the plan that the executor runs
  std::int64_t batch() const { return plan().batch(); }  ///< samples per step and rank
  /// Forward and backward passes of a step (Plan::micro_batches).
  std::int64_t micro_batches() const { return plan().micro_batches(); }

  /// The memory of a graph input for the samples of a micro-batch: channels-last for 4-D and 5-D values, else plain.
  /// The input "weight" (N) f32 is always there: 1 for samples that count, 0 for the padding of a short batch; all
  /// 1 after construction. Throws Error for a name that the graph does not have.
  Tensor input(const std::string& name, std::int64_t micro_batch = 0) const;
  /// For devices that share the host's memory: the following steps read this input from `data` instead of from input().
  /// `data` must be 64-byte aligned and have the shape, dtype and layout of input(), and must not change until backward
  /// has ended. The memory that input() has returned is freed.
  void read_input_from(const std::string& name, void* data, std::int64_t micro_batch = 0);
  /// A graph output in plain layout. In training, if ranks compute parts of samples (spatial_parts()), an output may
  /// be this rank's part. Valid after forward() until the next forward() on the same arena.
  /// Throws Error for a name that the graph does not have, and without has_outputs().
  Tensor output(const std::string& name) const;
  bool has_outputs() const;  ///< whether this rank has the outputs: of several stages, the last one has them

  /// Computes outputs and loss of a micro-batch. `params`: the values that change from step to step; they are for the
  /// whole step.
  void forward(const ops::StepParams& params, std::int64_t micro_batch = 0);
  /// Computes the gradients after forward() of the same micro-batch. With several micro-batches, adds gradients and
  /// loss to those of the previous micro-batches. Starts the exchange of each gradient bucket as soon as the bucket is
  /// full; with several micro-batches, and with ExchangeOptions::reproducible, only update() starts it.
  void backward(std::int64_t micro_batch);
  void backward();  ///< of the micro-batch of the last forward()
  /// Waits for the exchange and updates the parameters.
  void update();
  /// Names of the recurrent states (Graph::state), in node order. input(name) is the memory (batch, ...) of a state,
  /// for all micro-batches. States are zero at first, and forward() does not change them.
  std::vector<std::string> states() const;
  /// The next step begins with the states at the end of the step's last forward() (of each micro-batch).
  void carry_states();
  /// Sets all states to zero.
  void reset_states();
  /// Mean loss of the step. In training: over all ranks, after the last backward(). Otherwise: the part of this rank
  /// and micro-batch, after forward(). Waits for the device.
  double loss() const;

  /// With PlanOptions::sample_losses: the loss of each sample of the step (batch) as this rank has computed it, after
  /// the last forward(), without the sample's weight; 0 for samples of weight 0. If ranks share samples, a rank may
  /// have a term of the loss: the terms of the ranks of a replica add up. Else empty. Waits for the device.
  std::vector<float> sample_losses() const;

  /// Loss and loss scale of a step.
  struct StepResult {
    double loss = 0;  ///< as loss()
    /// As loss_scale(); with the result of the step's check of gradients, if update() came before start_readback().
    ops::LossScale loss_scale;
    /// As sample_losses(); valid until start_readback() has been called twice more.
    std::span<const float> sample_losses = {};
  };
  /// Queues the copy of the step's loss and loss scale to the host, without waiting for the step. At most two copies
  /// may be in flight.
  void start_readback();
  /// Waits for the oldest copy that was started, and returns its values.
  StepResult take_readback();
  /// With PlanOptions::noise_scale: whether the next step is measured for gradient_squares(). `part_weights`: the sum
  /// over this rank's micro-batches of the squares of their weights, which are the sums of their samples' weights; no
  /// value: the step is not measured, and does no more work than without that option. Called between two steps, on all
  /// ranks alike. Measured steps and others give the same bits.
  void measure_gradients(std::optional<double> part_weights);
  /// How much the gradient of a step scatters. A part of the step is what one rank computes of one micro-batch; the
  /// terms of all parts add up to the gradient.
  struct GradientSquares {
    double parts = 0;         ///< sum over the parts of the squares of all elements of their terms
    double whole = 0;         ///< sum of the squares of all elements of the gradient
    double part_weights = 0;  ///< as given to measure_gradients(), of all ranks together
    bool finite = true;       ///< false: the step was skipped, since a gradient was not finite (fp16)
  };
  /// Of the last step, which was measured, after update(); without the loss scale, the same on all ranks. Waits for the
  /// device.
  GradientSquares gradient_squares() const;

  /// Scale of the loss. In fp16 the scale begins with 2^16, and a step may change it; else the scale is 1.
  /// Checkpoints store it. Waits for the device.
  ops::LossScale loss_scale() const;
  /// Sets the scale, from a checkpoint. No effect in plans that do not check gradients.
  void set_loss_scale(const ops::LossScale& scale);

  /// Whether the loss depends on the parameter, so that it has a gradient.
  bool has_gradient(const std::string& parameter) const;
  /// Gradient of a parameter after backward(), over all ranks, times the loss scale: a copy on the host in row-major
  /// order. With PlanOptions::lag: this rank's term. Throws Error for a parameter without a gradient.
  std::vector<float> gradient(const std::string& parameter) const;
  /// Waits until the exchange has ended that backward(), or with PlanOptions::lag the last update(), has started.
  /// update() waits for each bucket of gradients only when it needs that bucket. Collective.
  void finish_exchange() const;
  /// Seconds that the host has waited for other ranks in the exchange since the last call of this function.
  double take_exchange_seconds();

  /// Runs the forward pass of the last step again. Returns the first input, parameter or node with a value that is not
  /// finite, or the first input with a class that the network does not have: "parameter conv1/weights", "layer conv2",
  /// "input y: sample 7 of the data has the class 12; expected 0 to 9, or -1 (ignored)"; empty if all values are as
  /// expected. `samples`: the numbers in the data of the micro-batch's samples; others are called by their place in
  /// the batch. why_not_finite() makes a sentence of it.
  std::string first_non_finite(std::span<const std::int64_t> samples = {});

  /// Also lets the collectives of this group advance between the calls of a step, for plans without their own exchange.
  /// `ranks` must outlive the executor; null: none.
  void set_progress(Communicator* ranks);

  void set_profiling(bool on);  ///< true: forgets old times and measures; false: stops measuring and keeps the times
  std::vector<PlanRow> rows() const;  ///< Plan::rows() with the measured milliseconds
  void print(std::ostream& out, const DevicePeaks* peaks = nullptr) const;  ///< Plan::print() of rows()

 private:
  struct Impl;
  struct Slot;
  class Turn;
  std::unique_ptr<Impl> impl_;
};

}  // namespace keelson
