#include "apps/common/evaluation.hpp"

#include "apps/common/subcommand.hpp"
#include "engine/base/counted.hpp"
#include "engine/grow/deepen.hpp"
#include "engine/train/training_grid.hpp"

namespace keelson::app {

void declare_checkpoint(EvaluationOptions& o, Subcommand& v) {
  v.option_without_default("--checkpoint", o.checkpoint,
                           "A checkpoint, or a run's folder: its best checkpoint, else its newest; for `evaluate` also "
                           "the folder of an ensemble",
                           "PATH")
      .differs_between_ranks();
  declare(o.device, v);
}

void declare_evaluation(EvaluationOptions& o, Subcommand& v) {
  v.option("--batch", o.batch,
           "Samples at a time, per rank or, with --spatial, --channel-parallel or --stages, per group of ranks",
           "SAMPLES")
      .positive();
  declare(o.replica, v);
  declare_threads(o.loader, v);
  v.flag("--json", o.json, "Print the result as JSON");
  declare(o.trace, v);
  v.flag(
      "--calibrate", o.calibrate,
      "Of an ensemble (train --members): fit a temperature of the probabilities, or a scale of the variances, on the "
      "run's validation data, and score with it");
  v.option_without_default("--report", o.report, "Of an ensemble: write a page with its scores and plots", "FILE")
      .output();
}

void declare_out_of_bag(EvaluationOptions& o, Subcommand& v) {
  v.option_without_default(
       "--out-of-bag", o.out_of_bag,
       "Of an ensemble with bags (train --members --bag): write a CSV of the training samples with their losses by the "
       "members that have not learned from them; large ones may have wrong targets",
       "FILE")
      .output();
}

void check_family(const CheckpointReader& checkpoint, const NetworkFamily& family) {
  if (!checkpoint.state().network.starts_with(family.prefix))
    refuse("{}: the checkpoint has the network {}, expected a network of {}", checkpoint.path().string(),
           checkpoint.state().network, family.name);
}

Graph with_stored_widths(const Graph& graph, const CheckpointReader& checkpoint) {
  const std::string& text = checkpoint.state().topology;
  return with_topology(graph, text.empty() ? Topology(graph) : Topology::parse(text));
}

CheckpointReader open_checkpoint(const EvaluationOptions& o, Communicator& world) {
  if (o.checkpoint.empty()) refuse("give --checkpoint: a checkpoint or a run's folder");
  return CheckpointReader(o.checkpoint, true, &world);
}

NetworkEvaluation::NetworkEvaluation(const EvaluationOptions& o, Launch& launch, const CheckpointReader& checkpoint,
                                     const Graph& graph, const Dataset& data, const MetricOptions& metrics,
                                     const SampleUnit& unit)
    : options_(o), world_(launch.world), graph_(with_stored_widths(graph, checkpoint)) {
  const auto replica = o.replica.extents();
  const ProcessGrid grid = training_grid(&world_, replica);
  if (data.size() < grid.extent(ProcessGrid::Axis::data))
    refuse("{} for {}: start fewer ranks", counted(world_.size(), "rank"), counted(data.size(), "sample"));
  require_parts(graph_, grid);
  trace_ = begin_trace(o.trace, world_);
  device_ = open_device(o.device, launch);
  parameters_.emplace(graph_, *device_.context, checkpoint.state().seed);
  evaluator_.emplace(graph_, *parameters_, data, &world_,
                     EvaluatorOptions{.batch = o.batch,
                                      .replica = replica,
                                      .threads = decide(o.loader, launch),
                                      .unit = unit,
                                      .evaluation = metrics});
  state_ = checkpoint.load(checkpoint.state().network, *parameters_, std::nullopt);
}

void NetworkEvaluation::end_trace() {
  app::end_trace(options_.trace, trace_.get(), world_, options_.json ? nullptr : stdout);
}

}  // namespace keelson::app
