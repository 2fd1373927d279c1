#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/ops/loss_scale.hpp"
#include "engine/ops/step_params.hpp"
#include "engine/plan/plan.hpp"

namespace keelson {

/// What an executor shares with others.
struct ExecutorOptions {
  /// Memory for values between calls; null: that of the parameters, which all executors on them share. Executors that
  /// take turns may share one, of the same network or of others.
  std::shared_ptr<Arena> arena;
  /// Where the executor's work is done; null: the current instance (Device::current_instance()), which is the device's
  /// main one without an InstanceScope. It must have as many threads as the instance that was current when the plan was
  /// made. Executors that run at the same time have one each.
  std::shared_ptr<ExecutionInstance> instance;
};

/// Runs a plan on parameters: the memory of inputs, states, gradients and the loss, the bound calls, what a device has
/// captured of them, and their times. Several executors, of one plan or of many, may be alive and take turns, step by
/// step, on the same parameters or on their own. Running never allocates, looks up or branches. Results are
/// deterministic.
///
///   executor.input("x") <- data;  executor.forward(params);  executor.backward();  executor.update();
///
/// An output is valid until the next forward() of any executor that shares the arena. The plan, the parameters and
/// their context must outlive the executor.
///
/// An executor is for one host thread at a time. Executors that share neither parameters nor arena may run in several
/// host threads at the same time, each on an execution instance of its own. Results then have the same bits as one
/// after the other. Executors that share a plan take turns from verb to verb: give each a plan to run side by side.
/// Executors on different instances that share parameters or an arena may take turns in one host thread: the device
/// orders their work. The host's own work on an executor's tensors belongs into an InstanceScope of its instance.
class Executor {
 public:
  /// Parameters without memory get it here, as the plan wants it. Throws Error for parameters that lie otherwise than
  /// the plan has it, OutOfMemory where the device has no room.
  Executor(const Plan& plan, Parameters& parameters, const ExecutorOptions& options = {});
  /// The same with a plan of its own.
  Executor(const Graph& graph, Parameters& parameters, const PlanOptions& options);
  ~Executor();
  Executor(const Executor&) = delete;

  const Plan& plan() const;
  std::int64_t batch() const { return plan().batch(); }

  /// The memory of a graph input for batch() samples; its layout is plain or channels-last (4-D and 5-D values),
  /// whichever the network wants. Also "weight" (N) f32: 1 for samples that count, 0 for the padding of a short batch;
  /// all 1 after construction.
  Tensor input(const std::string& name) const;
  /// For devices whose memory the host reads and writes: the steps to come read this input from `data` (as input()
  /// describes it; 64-byte aligned) instead of from a copy in input(). It must stay as it is until backward has ended.
  void read_input_from(const std::string& name, void* data);
  /// Valid after forward until the next forward; plain layout.
  Tensor output(const std::string& name) const;

  /// Sets what changes from step to step and computes outputs and loss.
  void forward(const ops::StepParams& params);
  /// Gradients of the step just computed; starts the exchange of each bucket as soon as it is complete.
  void backward();
  /// Waits for the exchange and moves the parameters.
  void update();
  /// Recurrent states (Graph::state), in node order; input(name) is the memory (batch, ...) of each. They are zero at
  /// first, and forward() leaves them alone: carry_states() makes what the last forward ended with the start of the
  /// next, reset_states() makes that zero.
  std::vector<std::string> states() const;
  void carry_states();
  void reset_states();
  /// Mean loss of the step over all ranks (after backward() in training, after forward() otherwise, then of this rank
  /// only). Waits for the device.
  double loss() const;

  /// How a step went.
  struct StepResult {
    double loss = 0;  ///< as loss()
    ops::LossScale loss_scale;
  };
  /// The same without waiting for the step: start_readback() queues the copy of its loss and, if update() is called
  /// before, of its loss scale; take_readback() waits for the oldest one that was started. At most two may be under
  /// way.
  void start_readback();
  StepResult take_readback();
  /// Scale of the loss: f16 begins with 2^16 and moves it, all others have 1. To be stored in checkpoints.
  ops::LossScale loss_scale() const;
  void set_loss_scale(const ops::LossScale& scale);

  /// Gradient of a parameter after backward() and finish_exchange(), in plain host order; times the loss scale.
  std::vector<float> gradient(const std::string& parameter) const;
  void finish_exchange() const;

  /// Runs the forward pass of the last step again and names the first node, parameter or input that holds a value that
  /// is not finite, with its kind ("parameter conv1/weights", "layer conv2"); empty if all are finite.
  std::string first_non_finite();

  void set_profiling(bool on);        ///< on: measures anew; off: keeps what was measured
  std::vector<PlanRow> rows() const;  ///< the plan's, with the milliseconds that were measured
  void print(std::ostream& out, const DevicePeaks* peaks = nullptr) const;  ///< Plan::print of these

 private:
  struct Impl;
  class Turn;
  std::unique_ptr<Impl> impl_;
};

}  // namespace keelson
