#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/graph/parameters.hpp"
#include "engine/graph/precision.hpp"
#include "engine/ops/peaks.hpp"
#include "engine/ops/step_params.hpp"
#include "engine/optim/optimizer.hpp"

namespace keelson {

struct PlanOptions {
  std::int64_t batch = 1;
  bool training = true;  ///< with backward pass, dropout and updates
  bool fuse = true;      ///< activations and max pooling into the layers that feed them
  /// Where a backend takes results of 16 bits, too (GPUs), values between layers are kept in the precision's type.
  Precision precision = Precision::fp32;
  std::size_t bucket_bytes = 8u << 20;   ///< a gradient bucket is sent when it holds this much
  const Optimizer* optimizer = nullptr;  ///< null: gradients only
  Communicator* communicator = nullptr;  ///< null or one rank: no exchange
};

/// One row of what a plan does, for people and for tools.
struct PlanRow {
  std::string phase;    ///< "forward", "backward", "exchange", "update"
  std::string node;     ///< "conv1"
  std::string op;       ///< "conv", "reorder", ...
  std::string backend;  ///< "onednn"
  std::string kernel;   ///< "brgconv:avx512_core"
  std::string layout;   ///< of what it writes
  double gflop = 0, megabytes = 0;
  double milliseconds = 0;  ///< median over profiled steps; 0 if not profiled

  double gflop_per_second() const { return milliseconds > 0 ? gflop / milliseconds * 1e3 : 0; }
  double gigabytes_per_second() const { return milliseconds > 0 ? megabytes / milliseconds : 0; }
  double share(const DevicePeaks& peaks) const {
    return peaks.share({gflop * 1e9, megabytes * 1e6}, milliseconds * 1e-3);
  }
};

/// A graph compiled for a context, a batch size and a mode: a flat list of calls over one arena. Made in well under a
/// second; running it never allocates, looks up or branches. Results are deterministic.
///
///   plan.input("x") <- data;  plan.forward(state);  plan.backward();  plan.update();
///
/// Not thread-safe. The context and parameters must outlive it.
class Plan {
 public:
  /// Refuses (InputError) a graph without the loss that training needs. Parameters without memory get it here.
  Plan(const Graph& graph, Parameters& parameters, const PlanOptions& options);
  ~Plan();
  Plan(const Plan&) = delete;

  /// The memory of a graph input for `batch` samples; its layout is plain or channels-last (4-D and 5-D values),
  /// whichever the network wants. Also "weight" (N) f32: 1 for samples that count, 0 for the padding of a short batch;
  /// all 1 after construction.
  Tensor input(const std::string& name) const;
  /// For devices whose memory the host reads and writes: the steps to come read this input from `data` (as input()
  /// describes it; 64-byte aligned) instead of from a copy in input(). It must stay as it is until backward has ended.
  void read_input_from(const std::string& name, void* data);
  /// Valid after forward until the next forward; plain layout.
  Tensor output(const std::string& name) const;
  std::int64_t batch() const;

  /// Sets what changes from step to step and computes outputs and loss.
  void forward(const ops::StepParams& state);
  /// Gradients of the step just computed; starts the exchange of each bucket as soon as it is complete.
  void backward();
  /// Waits for the exchange and moves the parameters.
  void update();
  /// Recurrent states (Graph::state) of this plan, in node order; input(name) is the memory (batch, ...) of each. They
  /// are zero at first, and forward() leaves them alone: carry_states() makes what the last forward ended with the
  /// start of the next, reset_states() makes that zero.
  std::vector<std::string> states() const;
  void carry_states();
  void reset_states();
  /// Mean loss of the step over all ranks (after backward() in training, after forward() otherwise, then of this rank
  /// only). Waits for the device.
  double loss() const;

  /// How a step went.
  struct StepResult {
    double loss = 0;  ///< as loss()
    ops::LossScale scaling;
  };
  /// The same without waiting for the step: start_readback() queues the copy of its loss and, if update() is called
  /// before, of its gradients' scale; take_readback() waits for the oldest one that was posted. At most two may be
  /// under way.
  void start_readback();
  StepResult take_readback();
  /// Scale of the gradients: f16 begins with 2^16 and moves it, all others have 1. To be stored in checkpoints.
  ops::LossScale loss_scale() const;
  /// Whether parameters rest where gradients are not finite (LossScale::skip).
  bool checks_gradients() const;
  void set_loss_scale(const ops::LossScale& scale);

  /// Gradient of a parameter after backward() and finish_exchange(), in plain host order; times the gradients' scale.
  std::vector<float> gradient(const std::string& parameter) const;
  void finish_exchange();

  /// Runs the forward pass of the last step again and names the first node, parameter or input that holds a value that
  /// is not finite, with its kind ("parameter conv1/weights", "layer conv2"); empty if all are finite.
  std::string first_non_finite();

  void set_profiling(bool on);  ///< on: measures anew; off: keeps what was measured
  std::vector<PlanRow> rows() const;
  /// A table of rows() and its sums. With `peaks` also each row's share of them.
  void print(std::ostream& out, const DevicePeaks* peaks = nullptr) const;
  /// Reorders in one step, as "conv1/dst: plain -> channels-last" lines: what a test pins.
  std::vector<std::string> reorders() const;
  /// Bytes on the device, by what for: what a plan of this batch needs.
  std::vector<std::pair<std::string, std::size_t>> memory() const;
  std::size_t arena_bytes() const;
  std::size_t arena_lower_bound() const;  ///< most bytes alive at one call: no placement can do with less
  /// Equal on two ranks exactly if they will make the same calls; compared when training starts.
  std::uint64_t hash() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace keelson
