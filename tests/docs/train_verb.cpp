#include "tests/docs/train_verb.hpp"

#include <filesystem>

#include "apps/common/spares.hpp"
#include "apps/common/training.hpp"
#include "apps/common/verb.hpp"
#include "engine/layers/layers.hpp"
#include "engine/train/metrics/accuracy.hpp"
#include "tests/docs/npy_dataset.hpp"

namespace keelson::digits {
namespace {

constexpr const char* network_name = "digits";  // checkpoints carry this name

struct TrainOptions {
  app::OptimizerOptions optimizer;  // --batch, --epochs, --optimizer, --lr, ...
  app::TrainingOptions training;    // --out, --resume, --time-limit, ...
  std::string train, validation;
  std::int64_t filters = 16;
  app::Verb* verb = nullptr;
};

Graph make_network(const Shape& image, std::int64_t filters) {
  Graph g;
  Var h = g.input("x", image);
  h = max_pool(relu(conv(h, {.filters = filters}, "conv1")), 2);
  h = dense(flatten(h), 10, "classes");
  g.set_output("prediction", h);  // what metrics read
  cross_entropy(h, g.input("y", {}, DType::s32));
  return g;
}

ExitCode train(TrainOptions& o, app::Job& job) {
  const app::TrainingRun run(o.training, job);  // finds the checkpoint that --resume names
  if (run.checkpoint())                         // options that are not given are those of the checkpoint
    o.verb->fill(run.stored(network_name, network_name), run.checkpoint()->path().string());
  app::check(o.optimizer);
  if (o.train.empty()) refuse("no training data: give --train DIR");

  const NpyDataset data(o.train);
  std::optional<NpyDataset> validation;
  if (!o.validation.empty()) validation.emplace(o.validation);
  const Graph graph = make_network(data.fields()[0].shape, o.filters);

  TrainerOptions t = run.trainer_options(o.optimizer);
  Trainer::check_sizes(data.size(), t.batch, job.world.size(), data.describe());
  t.network = network_name;
  t.config = o.verb->values();  // what the checkpoint keeps: the options that are .stored()
  t.config["train"] = std::filesystem::absolute(o.train).string();
  if (validation) t.config["validation"] = std::filesystem::absolute(o.validation).string();
  t.evaluation.metrics = {std::make_shared<Accuracy>()};
  return run.train({.graph = graph,
                    .training = data,
                    .validation = validation ? &*validation : nullptr,
                    .precision = "fp32",
                    .title = "Digits",
                    .targets = nullptr,
                    .targets_note = "",
                    .options = *o.verb},
                   t);
}

}  // namespace

void define_train(app::CommandLine& line) {
  auto o = std::make_shared<TrainOptions>();
  app::Verb& v = line.verb("train", "Train a network on images with classes", [o](app::Job& job) {
    return app::with_spares(job, o->training.spares, [&](app::Job& j) { return train(*o, j); });
  });
  v.option_without_default("--train", o->train, "Folder of the training data", "DIR").stored();
  v.option_without_default("--validation", o->validation, "Folder of the validation data", "DIR").stored();
  v.option("--filters", o->filters, "Of the convolution").positive().stored();
  declare(o->optimizer, v);
  declare(o->training, v);
  o->verb = &v;
}

}  // namespace keelson::digits
