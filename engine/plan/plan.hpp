#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/process_grid.hpp"
#include "engine/graph/parameters.hpp"
#include "engine/ops/peaks.hpp"
#include "engine/optim/optimizer.hpp"
#include "engine/plan/precision.hpp"

namespace keelson {

struct CompiledGraph;

struct PlanOptions {
  std::int64_t batch = 1;
  bool training = true;  ///< with backward pass, dropout and updates
  bool fuse = true;      ///< activations and max pooling into the layers that feed them
  /// Where a backend takes results of 16 bits, too (GPUs), values between layers are kept in the precision's type.
  Precision precision = Precision::fp32;
  std::size_t bucket_bytes = 8u << 20;   ///< a gradient bucket is sent when it holds this much
  const Optimizer* optimizer = nullptr;  ///< null: gradients only
  const ProcessGrid* grid = nullptr;     ///< null: this rank alone. Must outlive the plan

  /// The ranks that share the batch; null: this rank alone.
  Communicator* communicator() const { return grid ? grid->along(ProcessGrid::Axis::data) : nullptr; }
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

/// A graph compiled for a context, a batch size and a mode: a flat list of calls over buffers that have their places,
/// and a report of it. Made in well under a second. Immutable; an Executor runs it. The context must outlive it.
class Plan {
 public:
  /// Refuses (InputError) a graph without the loss that training needs. Parameters that have no layout yet get it,
  /// their memory and their initial values here; nothing else is allocated.
  Plan(const Graph& graph, Parameters& parameters, const PlanOptions& options);
  ~Plan();
  Plan(const Plan&) = delete;

  const PlanOptions& options() const;
  std::int64_t batch() const { return options().batch; }
  Context& context() const;
  /// Whether parameters rest where gradients are not finite (LossScale::skip).
  bool checks_gradients() const;

  /// The calls, without milliseconds.
  std::vector<PlanRow> rows() const;
  /// A table of `rows`, by default rows(), and its sums. With `peaks` also each row's share of them.
  void print(std::ostream& out, const DevicePeaks* peaks = nullptr, const std::vector<PlanRow>* rows = nullptr) const;
  /// Reorders in one step, as "conv1/dst: plain -> channels-last" lines: what a test pins.
  std::vector<std::string> reorders() const;
  /// Bytes on the device, by what for: what one executor needs.
  std::vector<std::pair<std::string, std::size_t>> memory() const;
  std::size_t arena_bytes() const;
  std::size_t arena_lower_bound() const;  ///< most bytes alive at one call: no placement can do with less
  /// Equal on two ranks exactly if they will make the same calls; compared when training starts.
  std::uint64_t hash() const;

 private:
  friend class Executor;
  std::unique_ptr<const CompiledGraph> compiled_;
};

}  // namespace keelson
