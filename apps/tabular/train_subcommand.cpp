#include <fmt/format.h>

#include <filesystem>

#include "apps/common/train_subcommand.hpp"
#include "apps/tabular/subcommands.hpp"
#include "apps/tabular/task.hpp"

namespace keelson::tabular {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t plotted_predictions = 2000;  // more points only make the report larger

using TrainOptions = app::TrainOptions<RunOptions>;

/// --data: a folder with train/ and perhaps validation/, or the rows themselves.
void name_files(TrainOptions& o) {
  DataOptions& d = o.run.data;
  std::error_code none;
  const fs::path folder = o.data;
  if (d.train.empty() && !o.data.empty()) {
    const bool parts = fs::is_directory(folder / "train", none);
    d.train = parts ? (folder / "train").string() : o.data;
    if (parts && d.validation.empty() && fs::is_directory(folder / "validation", none))
      d.validation = (folder / "validation").string();
  }
  if (d.train.empty()) refuse("give --data (a file, or a folder with train/ and validation/), or --train");
  for (std::string* path : {&d.train, &d.validation})
    if (!path->empty()) *path = fs::absolute(*path).string();
}

ExitCode train(TrainOptions& o, app::Launch& launch) {
  app::TrainingRun run(o.training, launch);
  run.complete(*o.subcommand, family, !o.data.empty(), o.run, recipes());
  name_files(o);
  check(o.run);
  std::optional<Scaling> known;
  if (run.model()) known = scaling_of(*run.model());
  const TabularData data(o.run.data, known ? &*known : nullptr, &launch.world);
  const Scaling& scaling = data.scaling();
  o.run.data.kind = scaling.with_classes() ? "classes" : "numbers";
  if (!scaling.with_classes() && (o.run.judge == "accuracy" || o.run.judge == "auc" || o.run.target_accuracy > 0))
    refuse("--judge, --target-accuracy: the target is a number, not a class; leave them out");
  const Graph graph = make_network(o.run, scaling);
  auto t = run.trainer_options(o.run);
  require_enough_samples(data.training().size(), t.batch, run.grid().data, data.training().describe());
  t.network = network_name;
  t.config = o.subcommand->values();
  t.config["train"] = o.run.data.train;
  t.config["validation"] = o.run.data.validation;
  t.texts["scaling"] = scaling.to_json();
  t.shuffle = o.run.shuffle;
  t.target = o.run.target_accuracy;
  std::optional<ClassMetrics> of_classes;
  std::optional<app::TargetMetrics> of_numbers;
  if (scaling.with_classes()) {
    t.evaluation.metrics = of_classes.emplace(o.run.judge, scaling).all;
  } else {
    of_numbers.emplace(std::make_shared<MeanAbsoluteError>(target_units(scaling)), plotted_predictions);
    t.evaluation.metrics = of_numbers->all();
    if (o.run.judge == "loss")
      t.evaluation.metrics.insert(t.evaluation.metrics.begin(), std::make_shared<LossMetric>());
  }
  return run.train(
      {.graph = graph,
       .training = data.training(),
       .validation = &data.validation(),
       .in_memory = true,
       .precision = o.run.precision,
       .title = fmt::format("Dense network of {} layers for {} features", o.run.layers + 1, scaling.features.size()),
       .options = *o.subcommand,
       .targets = of_numbers ? &*of_numbers : nullptr,
       .targets_note = "Validation rows in the units of the table; errors are in standard deviations of the "
                       "training rows.",
       .sections =
           [&] {
             return of_classes ? class_sections(*of_classes, scaling) : std::vector<app::ReportInput::Section>{};
           }},
      t);
}

void declare_more(TrainOptions& o, app::Subcommand& v) {
  const auto group = v.in(app::OptionGroup::data);
  v.option_without_default("--data", o.data,
                           "Rows with their targets: a file, folder or pattern of tables (CSV, Parquet) or of arrays "
                           "(HDF5, NetCDF, NumPy); or a folder with train/ and validation/",
                           "PATH")
      .not_stored()
      .differs_between_ranks();
}

}  // namespace

void define_train(app::CommandLine& line) {
  app::define_train_subcommands(
      line, "Train a network on the rows of a table; data-parallel over the ranks of mpirun or srun",
      std::make_shared<TrainOptions>(), &train, &declare_more);
}

}  // namespace keelson::tabular
