#pragma once

#include <string>

#include "apps/common/evaluation.hpp"
#include "apps/common/run_options.hpp"
#include "apps/tabular/data/tabular_data.hpp"

namespace keelson::tabular {

using app::Config;

/// The options that define a training run, except for its output. All of them are stored in checkpoints.
struct RunOptions : app::RunOptions {
  RunOptions();  ///< defaults that suit most tables

  int layers = 3, dropout_layers = 0;
  std::int64_t units = 128;
  std::string activation = "relu";
  float dropout = 0;
  bool batch_norm = false, shuffle = true;
  std::string judge = "auto";  ///< what says which epoch is the best
  DataOptions data;
  double target_accuracy = 0;
};

/// Declares these options on a subcommand. They are stored in checkpoints.
void declare(RunOptions& o, app::Subcommand& subcommand);

/// Hyper-parameters: "higgs", as published, and "higgs-demo".
const app::Recipes& recipes();

/// Throws InputError for combinations that make no sense.
void check(const RunOptions& o);

}  // namespace keelson::tabular
