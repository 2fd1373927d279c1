#include <fmt/ranges.h>

#include <filesystem>

#include "apps/common/train_subcommand.hpp"
#include "apps/lm/model.hpp"
#include "apps/lm/subcommands.hpp"
#include "engine/train/metrics/perplexity.hpp"

namespace keelson::lm {
namespace {

namespace fs = std::filesystem;

using TrainOptions = app::TrainOptions<RunOptions>;

std::vector<std::string> absolute(std::vector<std::string> paths) {
  for (auto& p : paths) p = fs::absolute(p).string();
  return paths;
}

/// Fills the options that the user left out.
void complete(TrainOptions& o, const app::TrainingRun& run) {
  auto& text = o.run.text;
  const bool cuts_vocabulary = o.subcommand->given("vocab-size") || o.subcommand->given("min-count");
  run.complete(*o.subcommand, family, !text.data.empty(), o.run, recipes());
  if (!text.test.empty()) refuse("--test: training reads no test text; give it to `keelson-lm evaluate`");
  if (run.checkpoint() && o.run.vocab.empty() && cuts_vocabulary)
    refuse("--vocab-size, --min-count: a resumed run keeps the vocabulary of its checkpoint; leave them out");
  const auto files = find_text_files(text);
  for (const auto* paths : {&files.train, &files.validation})
    for (const auto& path : *paths)
      if (path.find(',') != path.npos) refuse("{}: paths of texts are kept in lists with commas: rename it", path);
  text.train = absolute(files.train);
  text.validation = absolute(files.validation);
}

Config stored_config(const TrainOptions& o) {
  auto c = o.subcommand->values();
  c["train"] = fmt::format("{}", fmt::join(o.run.text.train, ","));
  c["validation"] = fmt::format("{}", fmt::join(o.run.text.validation, ","));
  return c;
}

/// The vocabulary in --vocab, or one made from the training text. Collective.
Vocabulary wanted_vocabulary(const RunOptions& o, const TextScan& scan, Communicator& world) {
  if (o.vocab.empty()) return Vocabulary(scan, {o.vocab_size, o.min_count});
  auto v = Vocabulary::load(o.vocab, &world);
  if (v.level() != o.text.token_level())
    refuse("--vocab {}: holds {}s, but --level is {}", o.vocab, to_string(v.level()), o.text.level);
  if (o.vocab_size > 0 && v.size() > o.vocab_size)
    refuse(
        "--vocab {}: has {} tokens, more than the {} of the model (--vocab-size): give a larger --vocab-size, or cut "
        "the vocabulary with `keelson-lm vocab --vocab-size {}`",
        o.vocab, v.size(), o.vocab_size, o.vocab_size);
  return v;
}

/// The vocabulary of the run. A resumed run keeps its vocabulary and refuses another one. Collective.
std::shared_ptr<const Vocabulary> choose_vocabulary(const RunOptions& o, const TextScan& scan,
                                                    const app::TrainingRun& run, Communicator& world) {
  if (!run.model()) return std::make_shared<const Vocabulary>(wanted_vocabulary(o, scan, world));
  auto stored = read_model(*run.model()).vocabulary;
  if (o.vocab.empty()) return stored;
  if (const auto given = wanted_vocabulary(o, scan, world); given.hash() != stored->hash())
    refuse(
        "{}: was trained with another vocabulary ({} tokens) than --vocab {} ({} tokens): leave --vocab out, or start "
        "a new run",
        run.model()->path().string(), stored->size(), o.vocab, given.size());
  return stored;
}

ExitCode train(TrainOptions& o, app::Launch& launch) {
  app::TrainingRun run(o.training, launch);
  complete(o, run);
  check(o.run);
  auto& world = launch.world;
  auto scan = scan_text(o.run.text.train, o.run.text.token_level(), world);
  const auto vocabulary = choose_vocabulary(o.run, scan, run, world);
  auto t = run.trainer_options(o.run);
  const std::int64_t streams = t.batch * run.grid().data;
  const TextWindows data(std::make_shared<const TextCorpus>(std::move(scan), &world), vocabulary,
                         {streams, o.run.unroll});
  const auto validation = o.run.text.validation.empty()
                              ? nullptr
                              : open_text(o.run.text.validation, vocabulary, {streams, o.run.unroll, true}, world);
  const Graph graph = nets::lstm_lm(net_options(o.run, vocabulary->size()));
  t.network = network_name(o.run);
  t.config = stored_config(o);
  t.texts["vocabulary"] = vocabulary->to_text();
  t.shuffle = false;
  t.unit = {"word", o.run.unroll};
  if (o.run.target_perplexity > 0 && !validation)
    refuse("--target-perplexity: there is no validation text to measure it on; give --validation");
  t.target = o.run.target_perplexity;
  t.evaluation.metrics = {std::make_shared<Perplexity>()};
  if (validation) t.evaluation.units = static_cast<double>(validation->targets());
  return run.train(
      {.graph = graph,
       .training = data,
       .validation = validation.get(),
       .in_memory = true,
       .precision = o.run.precision,
       .title = fmt::format("Language model, {} {} layer{} of {}", o.run.layers, o.run.cell == "gru" ? "GRU" : "LSTM",
                            o.run.layers == 1 ? "" : "s", o.run.hidden),
       .options = *o.subcommand},
      t);
}

void declare_more(TrainOptions&, app::Subcommand&) {}

}  // namespace

void define_train(app::CommandLine& line) {
  app::define_train_subcommands(line, "Train a language model on text; data-parallel over the ranks of mpirun or srun",
                                std::make_shared<TrainOptions>(), &train, &declare_more);
}

}  // namespace keelson::lm
