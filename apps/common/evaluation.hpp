#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "apps/common/app.hpp"
#include "apps/common/device_options.hpp"
#include "apps/common/loader_options.hpp"
#include "apps/common/parallel_option.hpp"
#include "apps/common/trace_option.hpp"
#include "engine/train/checkpoint/checkpoint_reader.hpp"
#include "engine/train/evaluator.hpp"

namespace keelson::app {

/// Options of every subcommand that uses a trained network.
struct EvaluationOptions {
  std::string checkpoint;
  std::int64_t batch = 4;
  RequestedReplica replica;
  LoaderThreads loader = undecided_threads;
  bool json = false;
  DeviceOptions device;
  TraceOption trace;
  bool calibrate = false;  ///< of ensembles: fits a temperature, or scales of the variances, on the validation data
  std::string report;      ///< of ensembles: a page to write; empty: none
  std::string out_of_bag;  ///< of ensembles with bags: a list of the training samples to write; empty: none
};

/// The first declares --checkpoint and the device's options; the second --batch, --spatial,
/// --channel-parallel, --stages, --loader-threads, --json, --trace, --calibrate and --report;
/// the third, for training data of separate samples, --out-of-bag.
void declare_checkpoint(EvaluationOptions& o, Subcommand& subcommand);
void declare_evaluation(EvaluationOptions& o, Subcommand& subcommand);
void declare_out_of_bag(EvaluationOptions& o, Subcommand& subcommand);

/// The networks of a program.
struct NetworkFamily {
  const char* prefix;  ///< of their names in checkpoints: "climate-"
  const char* name;    ///< for people: "climate segmentation"
};
/// Throws InputError for a checkpoint of another program's network.
void check_family(const CheckpointReader& checkpoint, const NetworkFamily& family);

/// The network of a checkpoint: the network of the program's options, with the widths that it had when the checkpoint
/// was written. Throws InputError for widths that do not fit.
Graph with_stored_widths(const Graph& graph, const CheckpointReader& checkpoint);

/// Opens the checkpoint that --checkpoint names. If --checkpoint names a run's folder: opens the best checkpoint of the
/// run, else the newest. Throws InputError if there is no checkpoint, or if it is damaged. Collective.
CheckpointReader open_checkpoint(const EvaluationOptions& o, Communicator& world);

/// The network of a checkpoint, on data and device: what all subcommands that evaluate do between their options and
/// their output.
class NetworkEvaluation {
 public:
  /// Begins the trace, opens the device, and loads the parameters. `graph`: the network of the program's options, which
  /// gets the widths of the checkpoint. All other references must outlive this. Throws InputError, also for fewer
  /// samples than ranks. Collective.
  NetworkEvaluation(const EvaluationOptions& o, Launch& launch, const CheckpointReader& checkpoint, const Graph& graph,
                    const Dataset& data, const MetricOptions& metrics, const SampleUnit& unit = {});
  /// Evaluates all samples. May be called again, for metrics that another call has prepared. Collective.
  Evaluation run() { return evaluator_->run(); }
  /// Ends the trace, and says on stdout where it is, unless the result is JSON. Collective.
  void end_trace();
  const RunState& state() const { return state_; }  ///< of the checkpoint

 private:
  const EvaluationOptions& options_;
  Communicator& world_;
  std::unique_ptr<TraceFile> trace_;  ///< outlives what it traces
  Graph graph_;
  DeviceSession device_;
  std::optional<Parameters> parameters_;
  std::optional<Evaluator> evaluator_;
  RunState state_;
};

}  // namespace keelson::app
