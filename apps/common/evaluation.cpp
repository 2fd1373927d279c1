#include "apps/common/evaluation.hpp"

#include "apps/common/verb.hpp"
#include "engine/train/checkpoint.hpp"

namespace keelson::app {

void declare_checkpoint(EvaluationOptions& o, Verb& v) {
  v.option_without_default("--checkpoint", o.checkpoint, "A checkpoint, or a run's folder: its best, else its newest",
                           "PATH");
  declare(o.device, v);
}

void declare_evaluation(EvaluationOptions& o, Verb& v) {
  v.option("--batch", o.batch, "Samples per rank at a time", "SAMPLES").positive();
  v.option("--loader-threads", o.loader_threads, "Decoding threads per rank", "N").positive();
  v.flag("--json", o.json, "Print the result as JSON");
}

StoredRun read_run(const std::filesystem::path& checkpoint, const std::string& family, const std::string& name) {
  StoredRun run{checkpoint, read_run_state(checkpoint)};
  if (!run.state.network.starts_with(family))
    refuse("{}: is of the network {}, not of {}", run.path.string(), run.state.network, name);
  return run;
}

std::filesystem::path checkpoint_of(const EvaluationOptions& o) {
  if (o.checkpoint.empty()) refuse("give --checkpoint: a checkpoint or a run's folder");
  return find_checkpoint(o.checkpoint, true);
}

EvaluatorOptions evaluator_options(const EvaluationOptions& o, const Session& session) {
  EvaluatorOptions e;
  e.batch = o.batch;
  e.threads = o.loader_threads;
  e.cpus = session.placement.cpus;
  return e;
}

}  // namespace keelson::app
