#include "apps/climate/mlperf.hpp"

#include <cmath>

#include "engine/optim/adam.hpp"
#include "engine/optim/lamb.hpp"

namespace keelson::climate {
namespace {

using app::as_written;
using Settings = std::vector<std::pair<std::string, nlohmann::ordered_json>>;

/// The closed division fixes network, optimizers and the kinds of schedule (hpc_training_rules; closed_deepcam.yaml).
std::string why_not_closed(const RunOptions& o) {
  if (o.net != "deepcam") return "its network is --net deepcam, not " + o.net;
  if (o.optimizer != "lamb") return "its optimizers have an epsilon of 1e-6, which only --optimizer lamb has here";
  if (o.clip_norm != 1) return "it clips gradients: give --clip-norm 1";
  if (o.schedule != "steps" && o.schedule != "cosine")
    return "its schedules are --schedule steps and cosine, not " + o.schedule;
  return "";
}

void add_optimizer(Settings& s, const RunOptions& o) {
  const Lamb lamb;
  const Adam adam;
  const bool is_lamb = o.optimizer == "lamb";
  s.emplace_back("opt_name", is_lamb ? "LAMB" : o.optimizer == "adam" ? "Adam" : o.optimizer);
  s.emplace_back("opt_lr", o.lr);
  s.emplace_back("opt_betas", std::vector{as_written(is_lamb ? lamb.beta1 : adam.beta1),
                                          as_written(is_lamb ? lamb.beta2 : adam.beta2)});
  s.emplace_back("opt_eps", as_written(is_lamb ? lamb.epsilon : adam.epsilon));
  s.emplace_back("opt_weight_decay", as_written(o.weight_decay));
  if (!is_lamb) return;
  s.emplace_back("opt_bias_correction", true);
  s.emplace_back("opt_grad_averaging", lamb.average_gradients);
  s.emplace_back("opt_max_grad_norm", as_written(o.clip_norm));
}

/// Adds the schedule, which the rules count in steps.
void add_schedule(Settings& s, const RunOptions& o, std::int64_t steps_per_epoch) {
  const auto steps = [&](double position) {
    return std::llround(o.schedule_by_steps ? position : position * static_cast<double>(steps_per_epoch));
  };
  if (o.schedule == "cosine") {
    s.emplace_back("scheduler_type", "cosine_annealing");
    s.emplace_back("scheduler_t_max", o.schedule_epochs > 0 ? steps(o.schedule_epochs) : o.epochs * steps_per_epoch);
    s.emplace_back("scheduler_eta_min", o.final_lr);
  } else {
    auto milestones = nlohmann::ordered_json::array();
    const auto changes = parse_steps(o.decay);
    for (const auto& change : changes) milestones.push_back(steps(change.epoch));
    s.emplace_back("scheduler_type", "multistep");
    s.emplace_back("scheduler_milestones", milestones);
    s.emplace_back("scheduler_decay_rate", changes.empty() ? 1 : changes[0].factor);
  }
  s.emplace_back("scheduler_lr_warmup_steps", steps(o.warmup_epochs));
  s.emplace_back("scheduler_lr_warmup_factor", o.warmup_from > 0 ? o.lr / o.warmup_from : 1);
}

}  // namespace

app::MlperfBenchmark mlperf_benchmark(const RunOptions& o, std::int64_t global_batch, std::int64_t steps_per_epoch) {
  Settings s{{"seed", o.seed},
             {"global_batch_size", global_batch},
             {"batchnorm_group_size", o.batch_norm_ranks},
             {"gradient_accumulation_frequency", 1}};
  add_optimizer(s, o);
  add_schedule(s, o, steps_per_epoch);
  return {.name = "deepcam", .metric = "eval_accuracy", .settings = std::move(s), .not_closed = why_not_closed(o)};
}

}  // namespace keelson::climate
