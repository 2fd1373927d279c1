#include "apps/cosmoflow/mlperf.hpp"

namespace keelson::cosmoflow {
namespace {

/// The closed division fixes network, optimizer and the kind of schedule (hpc_training_rules; closed_cosmoflow.yaml).
std::string why_not_closed(const RunOptions& o) {
  if (o.net != "mlperf") return "its network is --net mlperf, not " + o.net;
  if (o.optimizer != "sgd") return "its optimizer is --optimizer sgd, not " + o.optimizer;
  if (o.schedule != "steps") return "its schedule is --schedule steps, not " + o.schedule;
  return "";
}

}  // namespace

app::MlperfBenchmark mlperf_benchmark(const RunOptions& o, std::int64_t global_batch) {
  auto boundaries = nlohmann::ordered_json::array(), factors = boundaries;
  for (const auto& step : parse_steps(o.decay)) {
    boundaries.push_back(step.epoch);
    factors.push_back(step.factor);
  }
  return {.name = "cosmoflow",
          .metric = "eval_error",
          .settings = {{"seed", o.seed},
                       {"global_batch_size", global_batch},
                       {"opt_name", o.optimizer},
                       {"opt_base_learning_rate", o.lr},
                       {"opt_learning_rate_warmup_epochs", o.warmup_epochs},
                       {"opt_learning_rate_warmup_factor", o.warmup_from / o.lr},
                       {"opt_learning_rate_decay_boundary_epochs", boundaries},
                       {"opt_learning_rate_decay_factor", factors},
                       {"dropout", app::as_written(o.dropout)},
                       {"opt_weight_decay", app::as_written(o.l2)}},
          .not_closed = why_not_closed(o)};
}

}  // namespace keelson::cosmoflow
