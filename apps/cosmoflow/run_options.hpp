#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/common/run_options.hpp"
#include "apps/common/sample_files.hpp"

namespace keelson::cosmoflow {

using app::Config;

/// The options that define a training run, except for its paths. All of them are stored in checkpoints.
struct RunOptions : app::RunOptions, app::SampleFiles {
  std::string net = "mlperf";
  std::int64_t size = 0;  ///< 0: as stored
  float dropout = 0.5f;
  bool uncertainty = false;  ///< the network predicts the variance of each target, too

  std::string normalise = "auto";
  std::vector<int> channels;
  bool augment = false, augment_planes = false;

  float l2 = 0;
  double target_mae = 0;
};

/// Declares these options on a subcommand. They are stored in checkpoints.
void declare(RunOptions& o, app::Subcommand& subcommand);

/// The published hyper-parameters.
const app::Recipes& recipes();

/// Throws InputError for combinations that make no sense.
void check(const RunOptions& o);

}  // namespace keelson::cosmoflow
