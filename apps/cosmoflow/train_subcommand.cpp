#include <fmt/format.h>

#include "apps/common/left_out.hpp"
#include "apps/common/train_subcommand.hpp"
#include "apps/cosmoflow/data/symmetry.hpp"
#include "apps/cosmoflow/mlperf.hpp"
#include "apps/cosmoflow/subcommands.hpp"
#include "apps/cosmoflow/task.hpp"

namespace keelson::cosmoflow {
namespace {

constexpr std::int64_t plotted_predictions = 2000;  // more points only make the report larger

using TrainOptions = app::TrainOptions<RunOptions>;

/// Fills the options that the user left out.
void complete(TrainOptions& o, const app::TrainingRun& run) {
  app::Recipes known = recipes();
  if (o.subcommand->given("net"))
    for (auto& [name, recipe] : known) recipe.erase("l2");
  run.complete(*o.subcommand, family, !o.data.empty(), o.run, known);
  app::complete_files(o.run, o.data);
}

Config stored_config(const TrainOptions& o, const UniverseDataset& data) {
  auto c = o.subcommand->values();
  app::store_paths(o.run, c);
  c["size"] = std::to_string(data.fields()[0].shape[1]);
  c[ranges_key] = ranges_of(data);
  return c;
}

ExitCode train(TrainOptions& o, app::Launch& launch) {
  app::TrainingRun run(o.training, launch);
  complete(o, run);
  check(o.run);
  const auto files = app::stage_training_data(o.stage, {find_universes}, o.run, launch.world);
  const auto open = [&](const std::string& path, const auto& copies) {
    return open_data(o.run, path, launch.world, o.run.skip_broken, copies);
  };
  const auto data = open(files.train, files.copies);
  const auto validation = files.validation.empty() ? nullptr : open(files.validation, nullptr);
  if (validation) require_ranges(*validation, ranges_of(*data), data->file_of(0));
  if (run.checkpoint()) require_ranges(*data, *run.checkpoint());
  const auto graph = make_network(o.run, *data);
  const auto size = data->fields()[0].shape[1];
  auto t = run.trainer_options(o.run);
  t.cache.copies = files.copies;
  const app::LeftOut samples(*data, validation.get(), o.run.skip_broken, t.threads.count, launch.world);
  require_enough_samples(samples.training().size(), t.batch, run.grid().data, samples.training().describe(),
                         ranks_of(t.replica));
  t.network = network_name(o.run);
  t.config = stored_config(o, *data);
  t.optimizer = make_optimizer(o.run);
  t.shuffle = o.run.shuffle;
  if (o.run.augment || o.run.augment_planes)
    t.transform = std::make_shared<RandomCubeSymmetry>(o.run.augment_planes ? plane_symmetries : cube_symmetries);
  t.target = o.run.target_mae;
  const app::TargetMetrics targets(make_metric(o.run, *data), plotted_predictions);
  t.evaluation.metrics = targets.all();
  if (o.check_data && o.run.skip_broken == 0 && (!launch.member || launch.member->first)) {
    check_finite(*data, launch.world);
    if (validation) check_finite(*validation, launch.world);
  }
  const bool paper = o.run.net == "paper";
  return run.train(
      {.graph = graph,
       .training = samples.training(),
       .validation = samples.validation(),
       .precision = o.run.precision,
       .title = fmt::format("CosmoFlow, {} network, {}³ cells", paper ? "SC18 paper's" : "MLPerf HPC's", size),
       .options = *o.subcommand,
       .targets = &targets,
       .targets_note = paper ? "Validation samples in physical units; errors are relative."
                             : "Validation samples in physical units; errors are in the units of training, in which "
                               "targets lie in about [-1, 1].",
       .left_out = samples.reasons(),
       .mlperf = mlperf_benchmark(o.run, t.batch * run.grid().data)},
      t);
}

void declare_more(TrainOptions& o, app::Subcommand& v) {
  app::declare_training_folder(o.data, v);
  app::declare(o.stage, v);
  if (!o.training.finds_rates) app::declare(o.training.mlperf, v);
  const auto group = v.in(app::OptionGroup::data);
  v.flag("--check-data", o.check_data, "Read floating-point data once before training, to refuse NaN and infinity")
      .not_stored();
}

}  // namespace

void define_train(app::CommandLine& line) {
  auto o = std::make_shared<TrainOptions>();
  o->check_data = true;
  app::define_train_subcommands(line, "Train a network on universes; data-parallel over the ranks of mpirun or srun", o,
                                &train, &declare_more);
}

}  // namespace keelson::cosmoflow
