#include <fmt/format.h>

#include <filesystem>

#include "apps/common/spares.hpp"
#include "apps/common/split_path.hpp"
#include "apps/common/training.hpp"
#include "apps/common/verb.hpp"
#include "apps/cosmoflow/data/symmetry.hpp"
#include "apps/cosmoflow/mlperf.hpp"
#include "apps/cosmoflow/task.hpp"
#include "apps/cosmoflow/verbs.hpp"

namespace keelson::cosmoflow {
namespace {

constexpr std::int64_t plotted_predictions = 2000;  // more points only make the report larger

struct TrainOptions {
  RunOptions run;
  app::Verb* verb = nullptr;
  app::TrainingOptions training;
  std::string data;
  bool check_data = true;
};

/// Fills the options that the user left out: from the checkpoint or from the recipe, without those that the user's own
/// options replace.
void complete(TrainOptions& o, const app::TrainingRun& run) {
  if (run.checkpoint()) {
    auto stored = run.stored(family, family_name);
    if (!o.data.empty() || o.verb->given("train")) stored.erase("train");
    if (!o.data.empty() || o.verb->given("validation")) stored.erase("validation");
    o.verb->fill(stored, run.checkpoint()->path().string());
  } else if (!o.run.recipe.empty()) {
    auto preset = recipe(o.run.recipe);
    if (o.verb->given("net")) preset.erase("l2");
    o.verb->fill(preset, "recipe " + o.run.recipe);
  }
  if (!o.data.empty() && o.run.train.empty()) o.run.train = app::split_path(o.data, {"train"}, "--train");
  if (!o.data.empty() && o.run.validation.empty())
    o.run.validation = app::split_path(o.data, {"validation", "val"}, "--validation");
  if (o.run.train.empty())
    refuse("no training data: give --data DIR (with train/ and validation/ in it) or --train PATH");
}

Config stored_config(const TrainOptions& o, const UniverseDataset& data) {
  namespace fs = std::filesystem;
  auto c = o.verb->values();
  c["train"] = fs::absolute(o.run.train).string();
  c["validation"] = o.run.validation.empty() ? "" : fs::absolute(o.run.validation).string();
  c["size"] = std::to_string(data.fields()[0].shape[1]);
  c[ranges_key] = ranges_of(data);
  return c;
}

ExitCode train(TrainOptions& o, app::Job& job) {
  const app::TrainingRun run(o.training, job);
  complete(o, run);
  check(o.run);
  const auto data = open_data(o.run, o.run.train, job.world);
  const auto validation = o.run.validation.empty() ? nullptr : open_data(o.run, o.run.validation, job.world);
  if (validation) require_ranges(*validation, ranges_of(*data), data->file_of(0));
  if (run.checkpoint()) require_ranges(*data, *run.checkpoint());
  const auto graph = make_network(o.run, *data);
  const auto size = data->fields()[0].shape[1];
  auto t = run.trainer_options(o.run);
  require_enough_samples(data->size(), t.batch, job.world.size(), data->describe());
  t.network = network_name(o.run);
  t.config = stored_config(o, *data);
  t.optimizer = make_optimizer(o.run);
  t.shuffle = o.run.shuffle;
  if (o.run.augment) t.transform = std::make_shared<RandomCubeSymmetry>();
  t.target = o.run.target_mae;
  const app::TargetMetrics targets(make_metric(o.run, *data), plotted_predictions);
  t.evaluation.metrics = targets.all();
  if (o.check_data) {
    check_finite(*data, job.world);
    if (validation) check_finite(*validation, job.world);
  }
  const bool paper = o.run.net == "paper";
  return run.train(
      {.graph = graph,
       .training = *data,
       .validation = validation.get(),
       .precision = o.run.precision,
       .title = fmt::format("CosmoFlow, {} network, {}³ cells", paper ? "SC18 paper's" : "MLPerf HPC's", size),
       .targets = &targets,
       .targets_note = paper ? "Validation samples in physical units; errors are relative."
                             : "Validation samples in physical units; errors are in the units of training, in which "
                               "targets lie in about [-1, 1].",
       .options = *o.verb,
       .mlperf = mlperf_benchmark(o.run, t.batch * job.world.size())},
      t);
}

}  // namespace

void define_train(app::CommandLine& line) {
  auto o = std::make_shared<TrainOptions>();
  auto& v = line.verb("train", "Train a network on universes; data-parallel over the ranks of mpirun or srun",
                      [o](app::Job& job) {
                        return app::with_spares(job, o->training.spares, [&](app::Job& j) { return train(*o, j); });
                      });
  v.option_without_default("--data", o->data, "Folder with train/ and validation/ in it", "DIR")
      .not_stored()
      .differs_between_ranks();
  declare(o->training, v);
  app::declare(o->training.mlperf, v);
  v.flag("--check-data", o->check_data, "Read floating-point data once before training, to refuse NaN and infinity")
      .not_stored();
  declare(o->run, v);
  o->verb = &v;
}

}  // namespace keelson::cosmoflow
