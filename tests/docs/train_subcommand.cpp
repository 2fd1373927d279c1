#include "tests/docs/train_subcommand.hpp"

#include "apps/common/sample_files.hpp"
#include "apps/common/train_subcommand.hpp"
#include "engine/layers/layers.hpp"
#include "engine/train/metrics/accuracy.hpp"
#include "tests/docs/npy_dataset.hpp"

namespace keelson::digits {
namespace {

/// How the network's name in checkpoints begins, and what people call such networks.
constexpr app::NetworkFamily family{"digits-", "digits"};

/// The options that define a run: those of every program (batch, epochs, optimizer, schedule, precision), the files,
/// and the network's own.
struct RunOptions : app::RunOptions, app::SampleFiles {
  std::int64_t filters = 16;
};

void declare(RunOptions& o, app::Subcommand& v) {
  app::declare_precision(o, v, "convolutions' operands");
  app::declare_files(o, v);
  v.option("--filters", o.filters, "Filters of the convolution").positive().stored();
  app::declare(o, v);
}

Graph make_network(const Shape& image, std::int64_t filters) {
  Graph g;
  Var h = g.input("x", image);
  h = max_pool(relu(conv(h, {.filters = filters}, "conv1")), 2);
  h = dense(flatten(h), 10, "classes");
  g.set_output("prediction", h);  // what metrics read
  cross_entropy(h, g.input("y", {}, DType::s32));
  return g;
}

using TrainOptions = app::TrainOptions<RunOptions>;

ExitCode train(TrainOptions& o, app::Launch& launch) {
  app::TrainingRun run(o.training, launch);                         // finds the checkpoint that --resume names
  run.complete(*o.subcommand, family, !o.data.empty(), o.run, {});  // options that are not given: the checkpoint's
  app::complete_files(o.run, o.data);                               // --train and --validation from --data
  app::check(o.run);

  const NpyDataset data(o.run.train);
  std::optional<NpyDataset> validation;
  if (!o.run.validation.empty()) validation.emplace(o.run.validation);
  const Graph graph = make_network(data.fields()[0].shape, o.run.filters);

  TrainerOptions t = run.trainer_options(o.run);
  require_enough_samples(data.size(), t.batch, launch.world.size(), data.describe());
  t.network = "digits-conv";
  t.config = o.subcommand->values();  // all options that are .stored()
  app::store_paths(o.run, t.config);
  t.shuffle = o.run.shuffle;
  t.evaluation.metrics = {std::make_shared<Accuracy>()};
  return run.train({.graph = graph,
                    .training = data,
                    .validation = validation ? &*validation : nullptr,
                    .precision = o.run.precision,
                    .title = "Digits",
                    .options = *o.subcommand},
                   t);
}

void declare_more(TrainOptions& o, app::Subcommand& v) { app::declare_training_folder(o.data, v); }

}  // namespace

void define_train(app::CommandLine& line) {
  app::define_train_subcommands(line, "Train a network on images with classes", std::make_shared<TrainOptions>(),
                                &train, &declare_more);
}

}  // namespace keelson::digits
