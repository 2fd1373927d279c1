#include "engine/train/trainer_options.hpp"

#include "engine/train/checkpoint/checkpoint.hpp"

namespace keelson {

bool TrainerOptions::whole_parameters() const {
  return exchange.shards != OptimizerShards::none || sync.kind != SyncMode::Kind::synchronous || change_network ||
         (optimizer && optimizer->needs_whole_parameters());
}

PlanOptions TrainerOptions::plan() const {
  return {.batch = batch,
          .micro_batch_count = micro_batches,
          .precision = precision,
          .exchange = exchange,
          .optimizer = optimizer.get(),
          .lag = sync.kind == SyncMode::Kind::lag,
          .recompute = recompute,
          .sample_losses = prune.enabled(),
          .noise_scale = noise_scale > 0,
          .whole_parameters = whole_parameters(),
          .stage_starts = stage_starts};
}

std::vector<std::string> TrainerOptions::moments() const {
  auto names = moment_names(*optimizer);
  if (sync.kind == SyncMode::Kind::lag) names.emplace_back("lagged_gradient");
  return names;
}

}  // namespace keelson
