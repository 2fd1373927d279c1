#pragma once

#include <cstdint>
#include <string>

#include "apps/common/run_options.hpp"
#include "apps/common/sample_files.hpp"

namespace keelson::minerva {

using app::Config;

/// The options that define a training run, except for its output. All of them are stored in checkpoints.
struct RunOptions : app::RunOptions, app::SampleFiles {
  RunOptions();  ///< as published for the Epsilon network

  std::string net = "epsilon";
  std::string target = "planecode", channels = "energy", normalise = "log1p";
  std::int64_t classes = 67;
  float dropout = 0.5f;
  double width = 1;
  double target_accuracy = 0;
};

/// Declares these options on a subcommand. They are stored in checkpoints.
void declare(RunOptions& o, app::Subcommand& subcommand);

/// Hyper-parameters: "epsilon", "epsilon-2017" and "evolved" as published, and "demo".
const app::Recipes& recipes();

/// Throws InputError for combinations that make no sense.
void check(const RunOptions& o);

}  // namespace keelson::minerva
