#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/process_grid.hpp"
#include "engine/graph/parameters.hpp"
#include "engine/ops/peaks.hpp"
#include "engine/plan/distribution.hpp"
#include "engine/plan/precision.hpp"
#include "engine/plan/update_rule.hpp"

namespace keelson {

struct CompiledGraph;

/// How ranks exchange gradients.
struct ExchangeOptions {
  std::size_t bucket_bytes = 8u << 20;  ///< a gradient bucket is exchanged when it holds this many bytes
  Wire wire = Wire::fp32;               ///< of the buckets, between nodes
  /// Gradients and losses then have the same bits for any number of ranks with the same samples in a step, as long as
  /// each rank has as many threads: each sample is a micro-batch of its own, and the sums over samples are one binary
  /// tree, within a rank and then over ranks (SumOrder::tree). Training plans throw InputError if the samples per
  /// rank or the ranks are no power of two, on a grid with more than one rank along space, if the wire is not fp32,
  /// and for networks with layers that mix samples (Layer::mixes_samples). All gradients are whole, none by rows. The
  /// exchange begins behind the last backward pass.
  bool reproducible = false;
  /// Training plans on several ranks throw InputError if this is not none and the wire is not fp32, with
  /// PlanOptions::lag, with `reproducible` and shards of gradients, and with `reproducible` and an optimizer that reads
  /// norms.
  OptimizerShards shards = OptimizerShards::none;
};

/// How a graph is compiled.
struct PlanOptions {
  std::int64_t batch = 1;  ///< samples per step and rank; ranks along space and channel have the same ones
  /// Gradient accumulation: the step has so many forward and backward passes, of batch / micro_batch_count samples
  /// each. The gradients of the passes are added up in the order of the samples, and exchanged behind the last pass.
  /// The results are those of one pass up to rounding, in less memory. Plans throw InputError if the batch is no
  /// multiple of it, and training plans also with `reproducible`, with shards of gradients, and for networks with
  /// layers that mix samples (Layer::mixes_samples). With more than 1, all gradients are whole, none by rows.
  std::int64_t micro_batch_count = 1;
  bool training = true;  ///< with backward pass, dropout and updates
  /// Merges activations, max pooling and, without training, batch normalization with the layers whose results they
  /// read.
  bool fuse = true;
  /// In which type layers multiply. If a backend also takes results of 16 bits (GPUs), values between layers are
  /// kept in this type, too.
  Precision precision = Precision::fp32;
  ExchangeOptions exchange;               ///< of gradients over ranks
  const UpdateRule* optimizer = nullptr;  ///< an Optimizer; null: gradients only, no update
  /// The update reads the gradients of the step before, zero in the first step (SyncMode::Kind::lag). Their exchange
  /// runs beside a whole step. They are one more moment of each parameter, behind those of the optimizer.
  bool lag = false;
  /// An input that one reorder or conversion alone reads then has the layout and dtype of that call's result, and the
  /// call is gone: for callers that convert what they bring anyway. Executor::input(name).desc() says what is expected.
  bool inputs_as_read = false;
  /// Values that are cheap to make are made again for the backward pass instead of kept (recompute_cheap_values()):
  /// less memory, more time, the same results.
  bool recompute = false;
  bool sample_losses = false;  ///< for Executor::sample_losses(); the results are the same
  /// For Executor::gradient_squares(); the results are the same. Training plans throw InputError if a step is a single
  /// part (one rank, one micro-batch), with several ranks along space, channel or stage, and with `lag`.
  bool noise_scale = false;
  const ProcessGrid* grid = nullptr;  ///< null: this rank alone. Must outlive the plan
  /// On a grid with several ranks along space: each rank keeps whole parameters, also of the deep layers that the ranks
  /// would compute by channels (channel_layers()). Training plans with shards of the optimizer or with `lag` do so
  /// anyway. The same on all ranks, and for all plans of the parameters.
  bool whole_parameters = false;
  /// On a grid with several ranks along stage: the graph's nodes with which the second stage and those behind it begin
  /// (stage_parts()). Empty: stages of about the same work. The same on all ranks, and for all plans of the parameters.
  std::vector<std::string> stage_starts = {};
  /// Ranks that compile this plan together and take the algorithms of the first one (Autotuner), which may have
  /// to time them. All of them make plans of the same graphs in the same order. Null: the ranks along the axes data,
  /// space and channel of the grid. If ranks have parts of different sizes, only the ranks with the same part compile
  /// together: those along the axis data.
  Communicator* peers = nullptr;

  /// Forward and backward passes that make up a step: micro_batch_count or, with `reproducible`, one for each sample.
  std::int64_t micro_batches() const { return exchange.reproducible ? batch : micro_batch_count; }
  std::int64_t micro_batch_size() const { return batch / micro_batches(); }  ///< samples of such a pass
  /// The ranks that share the batch, and sum gradients; null: this rank alone, or a grid without a communicator.
  Communicator* communicator() const { return along(Distribution::batch); }
  /// `peers` or, if that is null, the ranks that it stands for; null: this rank alone. Stages are plans of their own.
  Communicator* compiles_with() const { return peers && !has_stages() ? peers : communicator(); }
  bool has_stages() const { return grid && grid->extent(ProcessGrid::Axis::stage) > 1; }  ///< several along the axis
  /// The ranks that have the same parts of their samples; null: this rank alone.
  Communicator* same_parts() const { return along(ProcessGrid::Axis::data); }

 private:
  Communicator* along(ProcessGrid::Axes axes) const { return grid && grid->has_ranks() ? grid->along(axes) : nullptr; }
};

/// A forward or a backward pass of a step.
struct Pass {
  std::int64_t micro_batch = 0;                  ///< its number, from 0
  bool backward = false;                         ///< else forward
  bool operator==(const Pass&) const = default;  ///< equal in both
};

/// What a rank exchanges in a step for one purpose.
struct Exchanged {
  std::string what;  ///< "gradients", "parameters", "rows of samples", "channels", "values of stages", "sums"
  /// Sent to other ranks, or given to a sum or a gather over ranks. Calls with a period count by 1 / period.
  double bytes = 0;
  std::int64_t messages = 0;  ///< number of sends, sums and gathers, of a step in which all calls run
};

/// One call of a plan, for people and for tools.
struct PlanRow {
  std::string phase;                ///< "forward", "backward", "exchange", "update"
  std::string node;                 ///< "conv1"
  std::string op;                   ///< "conv", "reorder", ...
  std::string backend;              ///< "onednn"
  std::string kernel;               ///< "brgconv:avx512_core"
  std::string layout;               ///< of the first result: "plain", "channels-last"
  double gflop = 0, megabytes = 0;  ///< work of the call in 10^9 FLOP; memory read and written in 10^6 bytes
  double least_gflop = 0;           ///< Cost::least_flops() in 10^9 FLOP
  double relative_error = 1;        ///< Primitive::relative_error()
  double milliseconds = 0;          ///< median over profiled steps in which the call runs; 0 if not profiled
  std::uint64_t period = 1;         ///< the call runs in one of so many steps (Every)
  double sent_megabytes = 0;        ///< of the start of a send: 10^6 bytes that travel to the other rank
  /// Gradients that are whole on this rank behind the call, which is the last to write them: bytes of f32.
  std::size_t gradient_bytes = 0;

  std::string op_with_period() const;  ///< "conv"; with a period "inverse roots, every 20 steps"
  /// Milliseconds of a step, on average over the period.
  double milliseconds_per_step() const { return milliseconds / static_cast<double>(period); }
  /// 10^9 FLOP per second; 0 if not profiled.
  double gflop_per_second() const { return milliseconds > 0 ? gflop / milliseconds * 1e3 : 0; }
  /// 10^9 bytes per second; 0 if not profiled.
  double gigabytes_per_second() const { return milliseconds > 0 ? megabytes / milliseconds : 0; }
  /// Part of the attainable speed that was reached, 1 for all of it: DevicePeaks::share(). 0 if not profiled.
  double share(const DevicePeaks& peaks) const {
    return peaks.share({least_gflop * 1e9, megabytes * 1e6}, milliseconds * 1e-3);
  }
};

/// Milliseconds of a step that measured calls would take at these peaks. A call that was faster than its peak, because
/// its data came from a cache, counts with the time that it took.
double least_milliseconds(const std::vector<PlanRow>& rows, const DevicePeaks& peaks);

/// A graph compiled for a context, a batch size and a mode: a flat list of calls over buffers that have their places in
/// memory. Compilation takes well under a second, and some seconds more if algorithms of convolutions must be timed
/// (Device::autotuner()). A plan does not change; an Executor runs the plan. The context must
/// outlive the plan.
class Plan {
 public:
  /// Throws InputError for a training plan of a graph without a loss. Parameters without a layout get their layout,
  /// their memory and their initial values here. Other memory is taken only to time algorithms, and given back.
  /// Collective over PlanOptions::peers: all throw what the first rank throws; InputError if training plans differ.
  Plan(const Graph& graph, Parameters& parameters, const PlanOptions& options);
  ~Plan();
  Plan(const Plan&) = delete;

  const PlanOptions& options() const;                     ///< as given to the constructor
  std::int64_t batch() const { return options().batch; }  ///< samples per step and rank
  /// Forward and backward passes of a step, of batch() / micro_batches() samples each.
  std::int64_t micro_batches() const { return options().micro_batches(); }
  /// The passes of a step in their order, without those of the update. With one stage: forward and backward of each
  /// micro-batch. With K stages: 1F1B, where stage p computes K - p - 1 forward passes ahead of the backward passes
  /// (Narayanan et al. 2019, arXiv:1806.03377, with a flush behind each step).
  std::vector<Pass> passes() const;
  /// Most micro-batches of which forward has run and backward has not, at any time of a step.
  std::int64_t in_flight() const;
  Context& context() const;  ///< of the parameters
  /// Whether the step checks gradients on the device, and moves no parameter if a gradient is not finite
  /// (LossScale::skip).
  bool checks_gradients() const;

  /// All calls in the order of the step, without milliseconds.
  std::vector<PlanRow> rows() const;
  /// Prints a table of `rows`, by default rows(), with sums, in which a call with a period counts by 1 / period. With
  /// `peaks` the table also has each row's share of the device's peaks.
  void print(std::ostream& out, const DevicePeaks* peaks = nullptr, const std::vector<PlanRow>* rows = nullptr) const;
  /// The reorders of one step, one line each: "conv1/dst: plain -> channels-last". Tests compare these lines.
  std::vector<std::string> reorders() const;
  /// Bytes on the device that one executor needs, by purpose: "parameters", "optimizer state", "gradients", "inputs and
  /// states", "activations".
  std::vector<std::pair<std::string, std::size_t>> memory() const;
  /// What this rank exchanges with others in a step, by purpose; empty for one rank.
  std::vector<Exchanged> exchanged() const;
  std::size_t arena_bytes() const;        ///< size of the arena that an executor needs
  std::size_t arena_lower_bound() const;  ///< most bytes that are in use at one call: no arena can be smaller
  /// Hash of all calls with their kernels and operands, without those of the update if the ranks update shards. Ranks
  /// that compile a training plan together (PlanOptions::peers) have the same hash: they compute the same for the same
  /// samples.
  std::uint64_t hash() const;
  /// Hash of what all ranks of a training plan have in common, whatever their parts of samples and their kernels are:
  /// nodes with the shapes of whole samples, gradients as they lie in memory, and what the ranks exchange.
  std::uint64_t structure() const;

 private:
  friend class Executor;
  std::unique_ptr<const CompiledGraph> compiled_;
};

}  // namespace keelson
