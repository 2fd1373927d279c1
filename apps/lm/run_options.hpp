#pragma once

#include <string>
#include <vector>

#include "apps/common/evaluation.hpp"
#include "apps/common/run_options.hpp"
#include "apps/lm/text_files.hpp"
#include "nets/lstm_lm/lstm_lm.hpp"

namespace keelson::lm {

using app::Config;

/// The options that define a training run, except for its output. All of them are stored in checkpoints.
struct RunOptions : app::RunOptions {
  RunOptions();  ///< the optimizer's defaults are those of the published language models

  std::string cell = "lstm";
  std::int64_t hidden = 200, embedding = 0, unroll = 20, sampled_softmax = 0;
  int layers = 2;
  float dropout = 0, init = 0.1f;
  bool tied = false;

  TextOptions text;
  std::string vocab;            ///< file; empty: made from the training text
  std::int64_t vocab_size = 0;  ///< 0: all
  std::int64_t min_count = 1;

  double target_perplexity = 0;
};

/// Declares these options on a subcommand. They are stored in checkpoints.
void declare(RunOptions& o, app::Subcommand& subcommand);

/// Hyper-parameters: "small", "medium" and "large" as published for the Penn Treebank, "demo".
const app::Recipes& recipes();

/// Throws InputError for combinations that make no sense.
void check(const RunOptions& o);

/// The network for a vocabulary of `vocabulary` tokens. `unroll` 0: as in the options.
nets::LstmLmOptions net_options(const RunOptions& o, std::int64_t vocabulary, std::int64_t unroll = 0);
std::string network_name(const RunOptions& o);  ///< "lm-lstm"
inline constexpr app::NetworkFamily family{"lm-", "language model"};

}  // namespace keelson::lm
