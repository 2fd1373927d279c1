#include "apps/lm/run_options.hpp"

#include <fmt/ranges.h>

#include "apps/common/options.hpp"
#include "engine/base/error.hpp"
#include "engine/graph/precision.hpp"

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

/// For the synthetic corpus of `keelson-lm corpus`, in a few minutes on two cores.
Config demo() {
  return {{"hidden", "160"},       {"layers", "1"},      {"unroll", "35"},  {"batch", "10"},
          {"epochs", "6"},         {"optimizer", "sgd"}, {"momentum", "0"}, {"lr", "1"},
          {"clip-norm", "5"},      {"init", "0.1"},      {"dropout", "0"},  {"schedule", "decay"},
          {"decay-factor", "0.4"}, {"flat-epochs", "3"}};
}

void declare_network(RunOptions& o, CLI::App& v, OptionTable& t) {
  t.add(app::option(v, "--cell", o.cell, "Recurrent layers")->check(CLI::IsMember({"lstm", "gru"})));
  t.add(app::option(v, "--hidden", o.hidden, "Hidden units per layer", "N")->check(CLI::PositiveNumber));
  t.add(app::option(v, "--layers", o.layers, "Recurrent layers", "N")->check(CLI::PositiveNumber));
  t.add(app::option(v, "--embedding", o.embedding, "Features per token; 0: as many as hidden units", "N")
            ->check(CLI::NonNegativeNumber));
  t.add(app::option(v, "--unroll", o.unroll, "Tokens through which gradients go back", "TOKENS")
            ->check(CLI::PositiveNumber));
  t.add(app::option(v, "--dropout", o.dropout,
                    "Probability that a feature of the embedding or of a layer's output is dropped in training")
            ->check(CLI::Range(0.0, 0.99)));
  t.add(
      app::option(v, "--init", o.init, "Weights begin uniform between - and + this", "X")->check(CLI::PositiveNumber));
  t.add_flag(app::flag(v, "--tied", o.tied, "The output layer has the embedding's weights"), o.tied);
  t.add(app::option(v, "--precision", o.precision,
                    "Of matrix products' operands; default: fp32 on CPUs, bf16 on GPUs (fp16 before Ampere); auto: "
                    "what is faster here, measured at the start")
            ->check(CLI::IsMember(precisions())));
}

void declare_data(RunOptions& o, CLI::App& v, OptionTable& t) {
  declare_text_options(v, o.text);
  for (const char* name : {"--train", "--validation"}) t.add(v.get_option(name)->delimiter(','));
  t.add(declare_level(v, o.text));
  app::option_without_default(v, "--vocab", o.vocab, "Vocabulary from `keelson-lm vocab`; default: made from the text",
                              "FILE");
  t.add(app::option(v, "--vocab-size", o.vocab_size,
                    "Most tokens in the vocabulary, the most frequent ones; the others are <unk>; 0: all", "N")
            ->check(CLI::NonNegativeNumber));
  t.add(app::option(v, "--min-count", o.min_count, "Rarer tokens are <unk>", "N")->check(CLI::PositiveNumber));
}

}  // namespace

RunOptions::RunOptions() {
  batch = 20;
  epochs = 13;
  lr = 1;
  momentum = 0;
  clip_norm = 5;
}

void declare(RunOptions& o, CLI::App& v, OptionTable& t) {
  app::option_without_default(v, "--recipe", o.recipe,
                              "Hyper-parameters: small, medium, large as published for the Penn Treebank (Zaremba et "
                              "al. 2014), demo; options given besides win")
      ->check(CLI::IsMember(recipes()));
  declare_network(o, v, t);
  declare_data(o, v, t);
  app::declare(o, v, t);
  t.add(app::option(v, "--target-perplexity", o.target_perplexity,
                    "Stop when the validation perplexity is at most this; 0: never")
            ->check(CLI::NonNegativeNumber));
}

Config recipe(const std::string& name) {
  if (name == "demo") return demo();
  for (const auto& c : nets::lstm_lm_configurations())
    if (c.name == name) return published(c);
  refuse("unknown recipe {}: expected one of {}", name, fmt::join(recipes(), ", "));
}

std::vector<std::string> recipes() {
  std::vector<std::string> names{"demo"};
  for (const auto& c : nets::lstm_lm_configurations()) names.push_back(c.name);
  return names;
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
          .cell = o.cell == "gru" ? ops::CellKind::gru : ops::CellKind::lstm};
}

std::string network_name(const RunOptions& o) { return family + o.cell; }

}  // namespace keelson::lm
