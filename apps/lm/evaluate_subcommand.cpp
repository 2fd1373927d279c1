#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "apps/common/ensemble_evaluation.hpp"
#include "apps/common/evaluation.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/lm/model.hpp"
#include "apps/lm/subcommands.hpp"
#include "engine/train/metrics/perplexity.hpp"

namespace keelson::lm {
namespace {

struct EvaluateOptions : app::EvaluationOptions {
  EvaluateOptions() { batch = 1; }  // as published: the whole text is one stream
  TextOptions text;
  std::int64_t unroll = 0;
  double require = 0, require_of_best = 0;
};

/// The test text, else the validation text, else the training text that the user gave; if the user gave none, the run's
/// validation text.
std::vector<std::string> files_to_judge(const EvaluateOptions& o, const RunOptions& run) {
  if (o.text.data.empty() && o.text.train.empty() && o.text.validation.empty() && o.text.test.empty()) {
    if (run.text.validation.empty()) refuse("the run had no validation text: give --data or --test");
    return run.text.validation;
  }
  auto given = o.text;
  if (given.data.empty() && given.train.empty()) given.train = given.test.empty() ? given.validation : given.test;
  const auto files = find_text_files(given);
  return !files.test.empty() ? files.test : !files.validation.empty() ? files.validation : files.train;
}

struct Outcome {
  const EvaluateOptions& options;
  const TextWindows& text;
  const Evaluation& evaluation;
  KnownSource source;
  std::int64_t unknown;  ///< tokens of the text that are not in the vocabulary

  double bits() const { return evaluation.loss / std::numbers::ln2; }
  double words_per_second() const { return static_cast<double>(text.targets()) / evaluation.seconds; }
};

void print_text(const Outcome& r) {
  const auto& e = r.evaluation;
  fmt::print("{}\n", r.text.describe());
  if (r.unknown > 0)
    fmt::print("{} of its {} tokens are not in the model's vocabulary: read as <unk>\n", r.unknown, r.text.tokens());
  fmt::print("perplexity {:.3f}: {:.5f} nats or {:.5f} bits a token, over {} tokens; {:.0f} words/s\n", e.metric,
             e.loss, r.bits(), r.text.targets(), r.words_per_second());
  if (r.source.perplexity > 0)
    fmt::print(
        "the text's source is known: the best possible perplexity is {:.3f} (this model has {:.2f} times that); with "
        "word frequencies alone {:.3f}, with one previous word {:.3f}\n",
        r.source.perplexity, e.metric / r.source.perplexity, r.source.unigram, r.source.bigram);
}

void print_json(const Outcome& r, const std::string& checkpoint) {
  nlohmann::json j{{"checkpoint", checkpoint},          {"text", r.text.describe()},
                   {"tokens", r.text.targets()},        {"unknown_tokens", r.unknown},
                   {"perplexity", r.evaluation.metric}, {"nats_per_token", r.evaluation.loss},
                   {"bits_per_token", r.bits()},        {"words_per_second", r.words_per_second()}};
  if (r.source.perplexity > 0)
    j["source"] = {{"perplexity", r.source.perplexity}, {"unigram", r.source.unigram}, {"bigram", r.source.bigram}};
  fmt::print("{}\n", j.dump());
}

/// Throws Error if the perplexity is above `most`; 0: no requirement.
void require_perplexity(double perplexity, double most) {
  if (most > 0 && !(perplexity <= most))
    fail("the model is not good enough: a perplexity of {:.3f}, expected at most {:.3f}", perplexity, most);
}

ExitCode evaluate(const EvaluateOptions& o, app::Launch& launch) {
  auto& world = launch.world;
  if (app::MemberNetworks::wanted(o, world)) {
    if (o.require_of_best > 0) refuse("--require-of-best: is for a single model; name a member of {}", o.checkpoint);
    const double perplexity =
        evaluate_ensemble(o, [&](const RunOptions& run) { return files_to_judge(o, run); }, o.unroll, launch);
    require_perplexity(perplexity, o.require);
    return ExitCode::done;
  }
  const auto checkpoint = open_checkpoint(o, world);
  const auto model = read_model(checkpoint);
  const auto files = files_to_judge(o, model.run);
  const std::int64_t unroll = o.unroll > 0 ? o.unroll : model.run.unroll;
  const auto text = open_text(files, model.vocabulary, {o.batch * world.size(), unroll, true}, world);
  const auto unknown = model.vocabulary->left_out(text->scan());
  // The source's entropy holds for whole words. A model that sees characters, or <unk>, cannot be compared with it.
  const bool same_question = model.vocabulary->level() == TokenLevel::word && unknown == 0 && files.size() == 1;
  const auto source = same_question ? known_source(files[0]) : KnownSource{};
  if (o.require_of_best > 0 && source.perplexity <= 0)
    refuse(
        "--require-of-best: the best possible perplexity of {} is not known: expected one text with source.json beside "
        "it, as `keelson-lm corpus` writes it, and a model of words whose vocabulary has all of them",
        files[0]);

  const Graph graph = nets::lstm_lm(net_options(model.run, model.vocabulary->size(), unroll));
  app::NetworkEvaluation network(
      o, launch, checkpoint, graph, *text,
      {.metrics = {std::make_shared<Perplexity>()}, .units = static_cast<double>(text->targets())}, {"word", unroll});
  const auto result = network.run();
  network.end_trace();
  if (world.rank() == 0) {
    const Outcome outcome{o, *text, result, source, unknown};
    if (o.json)
      print_json(outcome, checkpoint.path().string());
    else
      print_text(outcome);
  }
  for (const double most : {o.require, o.require_of_best * source.perplexity}) require_perplexity(result.metric, most);
  return ExitCode::done;
}

}  // namespace

void define_evaluate(app::CommandLine& line) {
  auto o = std::make_shared<EvaluateOptions>();
  auto& v = line.subcommand(
      "evaluate", "Measure the perplexity of a trained language model on a text; every token is predicted once",
      [o](app::Launch& launch) { return evaluate(*o, launch); });
  declare_checkpoint(*o, v);
  declare_text_options(v, o->text);
  v.option("--unroll", o->unroll, "Tokens per step, which does not change the result; 0: as trained", "TOKENS")
      .non_negative();
  v.option("--require", o->require, "Exit code 1 if the perplexity is above this; 0: no requirement", "X")
      .non_negative();
  v.option("--require-of-best", o->require_of_best,
           "Exit code 1 if the perplexity is above this multiple of the best possible one; the text's source must be "
           "known; 0: no requirement",
           "X")
      .non_negative();
  declare_evaluation(*o, v);
}

}  // namespace keelson::lm
