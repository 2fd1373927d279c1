#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/common/option_table.hpp"

namespace keelson::cosmoflow {

using app::Config;
using app::OptionTable;

/// What defines a training run, apart from where it reads and writes. All of it is stored in checkpoints.
struct RunOptions {
  std::string recipe;

  std::string net = "mlperf";
  std::int64_t size = 0;  ///< 0: as stored
  float dropout = 0.5f;
  std::string precision = "fp32";

  std::string train, validation;
  std::string normalise = "auto";
  std::vector<int> channels;
  bool shuffle = true, augment = false;

  std::int64_t batch = 1, global_batch = 0;
  std::int64_t epochs = 1;
  std::uint64_t seed = 1;

  std::string optimizer = "sgd";
  double lr = 0.001, final_lr = 0;
  std::string schedule = "constant", decay;
  double schedule_epochs = 0;  ///< 0: epochs
  double warmup_epochs = 0, warmup_from = 0;
  float momentum = 0.9f;
  bool nesterov = false;
  float weight_decay = 0, l2 = 0, clip_norm = 0;
  std::string larc = "none";
  float larc_eta = 0.002f;
  double target_mae = 0;
};

/// Declares them on a verb; the table then knows all of them.
void declare(RunOptions& o, CLI::App& verb, OptionTable& table);

/// The published hyper-parameters under this name; throws InputError for another name.
Config recipe(const std::string& name);
std::vector<std::string> recipes();

/// Throws InputError for combinations that make no sense.
void check(const RunOptions& o);

}  // namespace keelson::cosmoflow
