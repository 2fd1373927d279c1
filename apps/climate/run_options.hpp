#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/common/run_options.hpp"
#include "apps/common/sample_files.hpp"

namespace keelson::climate {

using app::Config;

/// The options that define a training run, except for its paths. All of them are stored in checkpoints.
struct RunOptions : app::RunOptions, app::SampleFiles {
  std::string net = "tiramisu";
  std::int64_t first = 64, growth = 32, kernel = 5;  ///< of Tiramisu
  std::vector<int> layers = {2, 2, 2, 4, 5};         ///< of Tiramisu
  float dropout = 0.2f;                              ///< of Tiramisu
  float width = 1;                                   ///< of both DeepLabv3+; so is batch_norm_ranks
  int batch_norm_ranks = 1;
  int output_stride = 16, middle_blocks = 16;  ///< of DeepCAM
  std::string decoder = "deconv1x";            ///< of SC18's DeepLabv3+
  int resnet = 50;                             ///< of SC18's DeepLabv3+
  bool batch_norm = false;                     ///< of SC18's DeepLabv3+
  std::string loss = "auto";
  bool schedule_by_steps = false;

  std::string stats;
  std::vector<int> channels;  ///< empty: all
  int labels = 0;

  std::string metric = "auto";
  double target_iou = 0;
};

/// Declares these options on a subcommand. They are stored in checkpoints.
void declare(RunOptions& o, app::Subcommand& subcommand);

/// The published hyper-parameters.
const app::Recipes& recipes();

/// Throws InputError for combinations that make no sense.
void check(const RunOptions& o);

}  // namespace keelson::climate
