#include "apps/common/evaluation.hpp"

#include "apps/common/verb.hpp"

namespace keelson::app {

void declare_checkpoint(EvaluationOptions& o, Verb& v) {
  v.option_without_default("--checkpoint", o.checkpoint,
                           "A checkpoint, or a run's folder: its best checkpoint, else its newest", "PATH")
      .differs_between_ranks();
  declare(o.device, v);
}

void declare_evaluation(EvaluationOptions& o, Verb& v) {
  v.option("--batch", o.batch, "Samples per rank at a time", "SAMPLES").positive();
  declare_threads(o.loader, v);
  v.flag("--json", o.json, "Print the result as JSON");
  declare(o.trace, v);
}

void check_family(const CheckpointReader& checkpoint, const std::string& family, const std::string& name) {
  if (!checkpoint.state().network.starts_with(family))
    refuse("{}: the checkpoint has the network {}, expected a network of {}", checkpoint.path().string(),
           checkpoint.state().network, name);
}

CheckpointReader open_checkpoint(const EvaluationOptions& o, Communicator& world) {
  if (o.checkpoint.empty()) refuse("give --checkpoint: a checkpoint or a run's folder");
  return CheckpointReader(o.checkpoint, true, &world);
}

EvaluatorOptions evaluator_options(const EvaluationOptions& o, const Job& job) {
  EvaluatorOptions e;
  e.batch = o.batch;
  e.threads = decide(o.loader, job, o.batch);
  return e;
}

}  // namespace keelson::app
