#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "apps/common/subcommand.hpp"
#include "engine/base/process_grid.hpp"
#include "engine/optim/optimizer.hpp"
#include "engine/optim/schedule.hpp"
#include "engine/train/samples/sample_pruning.hpp"

namespace keelson::app {

/// How training changes the parameters of any network. Stored in checkpoints. The run options of each program derive
/// from this struct.
struct OptimizerOptions {
  std::int64_t batch = 1;         ///< samples per rank and step
  std::int64_t global_batch = 0;  ///< samples per step; 0: batch * replicas
  std::int64_t epochs = 1;
  std::uint64_t seed = 1;
  bool bag = false;                    ///< as TrainerOptions has it
  std::string prune_samples = "none";  ///< as parse_prune_rule() reads it
  double prune_ratio = -1;             ///< negative: not given

  std::string optimizer = "sgd";
  std::string optimizer_options;  ///< settings without an option of their own: NAME=VALUE,...
  double lr = 0.001, final_lr = 0;
  std::string schedule = "constant", decay;
  double decay_factor = 0;  ///< 0: not given
  std::int64_t flat_epochs = 0;
  double schedule_epochs = 0;  ///< 0: epochs
  double warmup_epochs = 0, warmup_from = 0;
  float momentum = 0.9f;
  bool nesterov = false;
  float weight_decay = 0, clip_norm = 0;
  std::string larc = "none";
  float larc_eta = 0.002f;
  float larc_floor = 0;        ///< no option: a program may set it
  bool larc_relative = false;  ///< no option: a program may set it
  float lars_eta = 0.001f;
  bool lars_rate_outside = false, nvlamb = false, adapt_vectors = false;
  std::string sync = "synchronous";  ///< as SyncMode::parse() reads it
  std::string apoptosis = "off";     ///< or as ApoptosisOptions::of() reads it
  std::string grow;                  ///< path of a blueprint (parse_blueprint()); empty: none
};

/// Declares these options on a subcommand. They are stored in checkpoints.
void declare(OptimizerOptions& o, Subcommand& subcommand);

/// Throws InputError for combinations that make no sense.
void check(const OptimizerOptions& o);

std::shared_ptr<Optimizer> make_optimizer(const OptimizerOptions& o);
Schedule make_schedule(const OptimizerOptions& o);

/// Which samples epochs leave out.
PruneOptions prune_options(const OptimizerOptions& o);

/// Samples per replica, which is a rank, or several with --spatial. Throws InputError if --global-batch cannot be
/// divided.
std::int64_t batch_per_replica(const OptimizerOptions& o, const ProcessGrid::Extents& grid);

}  // namespace keelson::app
