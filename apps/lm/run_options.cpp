#include "apps/lm/run_options.hpp"

#include <fmt/format.h>

#include "apps/common/subcommand.hpp"
#include "engine/base/error.hpp"

namespace keelson::lm {
namespace {

Config published(const nets::LstmLmConfiguration& c) {
  return {{"cell", "lstm"},
          {"hidden", std::to_string(c.net.hidden)},
          {"layers", std::to_string(c.net.layers)},
          {"unroll", std::to_string(c.net.unroll)},
          {"dropout", fmt::format("{}", c.net.dropout)},
          {"init", fmt::format("{}", c.net.init)},
          {"vocab-size", std::to_string(c.net.vocabulary)},
          {"global-batch", std::to_string(c.batch)},
          {"epochs", std::to_string(c.epochs)},
          {"optimizer", "sgd"},
          {"momentum", "0"},
          {"lr", fmt::format("{}", c.lr)},
          {"schedule", "decay"},
          {"decay-factor", fmt::format("{}", c.decay)},
          {"flat-epochs", std::to_string(c.flat_epochs)},
          {"clip-norm", fmt::format("{}", c.clip_norm)}};
}

/// For the synthetic corpus of `keelson-lm corpus`: takes a few minutes on two cores.
Config demo() {
  return {{"hidden", "160"},       {"layers", "1"},      {"unroll", "35"},  {"batch", "10"},
          {"epochs", "6"},         {"optimizer", "sgd"}, {"momentum", "0"}, {"lr", "1"},
          {"clip-norm", "5"},      {"init", "0.1"},      {"dropout", "0"},  {"schedule", "decay"},
          {"decay-factor", "0.4"}, {"flat-epochs", "3"}};
}

void declare_network(RunOptions& o, app::Subcommand& v) {
  v.option("--cell", o.cell, "Recurrent layers").one_of({"lstm", "gru"}).stored();
  v.option("--hidden", o.hidden, "Hidden units per layer", "N").positive().stored();
  v.option("--layers", o.layers, "Recurrent layers", "N").positive().stored();
  v.option("--embedding", o.embedding, "Features per token; 0: as many as hidden units", "N").non_negative().stored();
  v.option("--unroll", o.unroll, "Tokens through which gradients go back", "TOKENS").positive().stored();
  v.option("--dropout", o.dropout,
           "Probability that a feature of the embedding or of a layer's output is dropped in training")
      .between(0.0, 0.99)
      .stored();
  v.option("--init", o.init, "Initial weights are uniform between minus and plus this", "X").positive().stored();
  v.flag("--tied", o.tied, "The output layer has the embedding's weights").stored();
  v.option("--sampled-softmax", o.sampled_softmax,
           "Training estimates the softmax over all words from so many, drawn anew in each step; 0: from all. "
           "Evaluation always computes all words",
           "N")
      .non_negative()
      .stored();
  app::declare_precision(o, v, "matrix products' operands");
}

void declare_data(RunOptions& o, app::Subcommand& v) {
  const auto group = v.in(app::OptionGroup::data);
  declare_text_options(v, o.text);
  for (const char* name : {"train", "validation"}) v.find(name).comma_separated().stored().same_for_members();
  for (const char* name : {"data", "test"}) v.find(name).not_stored();
  declare_level(v, o.text).stored().same_for_members();
  v.option_without_default("--vocab", o.vocab, "Vocabulary from `keelson-lm vocab`; default: made from the text",
                           "FILE")
      .not_stored()  // checkpoints keep the vocabulary itself
      .differs_between_ranks();
  v.option("--vocab-size", o.vocab_size,
           "Size of the vocabulary: the most frequent tokens; the others are <unk>; 0: all", "N")
      .non_negative()
      .stored()
      .same_for_members();
  v.option("--min-count", o.min_count, "Rarer tokens are <unk>", "N").positive().stored().same_for_members();
}

}  // namespace

RunOptions::RunOptions() {
  batch = 20;
  epochs = 13;
  lr = 1;
  momentum = 0;
  clip_norm = 5;
}

const app::Recipes& recipes() {
  static const app::Recipes all = [] {
    app::Recipes r{{"demo", demo()}};
    for (const auto& c : nets::lstm_lm_configurations()) r[c.name] = published(c);
    return r;
  }();
  return all;
}

void declare(RunOptions& o, app::Subcommand& v) {
  const auto group = v.in(app::OptionGroup::network);
  app::declare_recipe(
      o, v, recipes(),
      "Hyper-parameters: small, medium, large as published for the Penn Treebank (Zaremba et al. 2014), "
      "demo; options that you also give win");
  declare_network(o, v);
  declare_data(o, v);
  app::declare(o, v);
  const auto training = v.in(app::OptionGroup::training);
  v.option("--target-perplexity", o.target_perplexity, "Stop when the validation perplexity is at most this; 0: never")
      .non_negative()
      .stored();
}

void check(const RunOptions& o) {
  app::check(o);
  if (o.tied && o.embedding > 0 && o.embedding != o.hidden)
    refuse("--tied needs as many features per token as hidden units: --embedding {} is not --hidden {}", o.embedding,
           o.hidden);
}

nets::LstmLmOptions net_options(const RunOptions& o, std::int64_t vocabulary, std::int64_t unroll) {
  return {.vocabulary = vocabulary,
          .embedding = o.embedding,
          .hidden = o.hidden,
          .layers = o.layers,
          .unroll = unroll > 0 ? unroll : o.unroll,
          .dropout = o.dropout,
          .init = o.init,
          .tied = o.tied,
          .sampled_softmax = o.sampled_softmax,
          .cell = o.cell == "gru" ? ops::CellKind::gru : ops::CellKind::lstm};
}

std::string network_name(const RunOptions& o) { return std::string(family.prefix) + o.cell; }

}  // namespace keelson::lm
