#include <fmt/format.h>

#include "apps/climate/maps/predicted_maps.hpp"
#include "apps/climate/maps/sections.hpp"
#include "apps/climate/mlperf.hpp"
#include "apps/climate/subcommands.hpp"
#include "apps/climate/task.hpp"
#include "apps/common/left_out.hpp"
#include "apps/common/train_subcommand.hpp"
#include "engine/base/ranks.hpp"

namespace keelson::climate {
namespace {

constexpr std::int64_t kMapped = 2;  // number of validation samples that the report shows as maps

using TrainOptions = app::TrainOptions<RunOptions>;

/// Fills the options that the user left out.
void complete(TrainOptions& o, const app::TrainingRun& run) {
  run.complete(*o.subcommand, family, !o.data.empty(), o.run, recipes());
  app::complete_files(o.run, o.data);
}

/// The normalisation of the run that is resumed, else that of find_normalisation().
Normalisation normalisation(const TrainOptions& o, const app::TrainingRun& run, const SnapshotDataset& training,
                            const std::vector<std::int64_t>& left_out, Communicator& world) {
  if (!run.model() || o.subcommand->given("stats")) return find_normalisation(o.run, training, left_out, world);
  const auto& config = run.model()->state().config;
  const auto ranges = config.find("ranges");
  const auto path = run.model()->path().string();
  return {ranges_from_text(ranges == config.end() ? "" : ranges->second, path), path};
}

/// Reads all samples once; the ranks share them. Throws InputError on all ranks for a sample that cannot be read.
/// Collective.
void check_samples(const Dataset& data, Communicator& world) {
  on_each_rank(&world, [&] {
    std::vector<float> x(static_cast<std::size_t>(data.fields()[0].shape.elements()));
    std::vector<std::int32_t> y(static_cast<std::size_t>(data.fields()[1].shape.elements()));
    void* const dst[] = {x.data(), y.data()};
    for (std::int64_t i = world.rank(); i < data.size(); i += world.size()) data.read(i, dst);
  });
}

Config stored_config(const TrainOptions& o, const SnapshotDataset& data) {
  auto c = o.subcommand->values();
  app::store_paths(o.run, c);
  c["ranges"] = to_text(data.ranges());
  return c;
}

ExitCode train(TrainOptions& o, app::Launch& launch) {
  app::TrainingRun run(o.training, launch);
  complete(o, run);
  check(o.run);
  const auto files = app::stage_training_data(o.stage, {find_snapshots, {"stats.h5"}}, o.run, launch.world);
  const auto open = [&](const std::string& path, const auto& copies) {
    return open_snapshots(o.run, path, launch.world, o.run.skip_broken, copies);
  };
  const auto data = open(files.train, files.copies);
  const auto validation = files.validation.empty() ? nullptr : open(files.validation, nullptr);
  const auto graph = make_network(o.run, *data);
  auto t = run.trainer_options(o.run);
  t.cache.copies = files.copies;
  const app::LeftOut samples(*data, validation.get(), o.run.skip_broken, t.threads.count, launch.world);
  require_enough_samples(samples.training().size(), t.batch, run.grid().data, samples.training().describe(),
                         ranks_of(t.replica));
  const auto [ranges, source] = normalisation(o, run, *data, samples.of_training(), launch.world);
  data->normalise(ranges, source);
  if (validation) validation->normalise(ranges, source);
  t.network = network_name(o.run);
  t.config = stored_config(o, *data);
  t.optimizer = make_optimizer(o.run);
  const std::int64_t global_batch = t.batch * run.grid().data;
  const std::int64_t steps_per_epoch = (samples.training().size() + global_batch - 1) / global_batch;
  t.schedule = make_schedule(o.run, steps_per_epoch);
  t.shuffle = o.run.shuffle;
  t.target = o.run.target_iou;
  t.evaluation.metrics = make_metrics(o.run);
  const auto maps = std::make_shared<PredictedMaps>(kMapped);
  if (validation) t.evaluation.metrics.push_back(maps);
  const auto& judge = dynamic_cast<const SegmentationMetric&>(*t.evaluation.metrics[0]);
  if (o.check_data && o.run.skip_broken == 0 && (!launch.member || launch.member->first)) {
    check_samples(*data, launch.world);
    if (validation) check_samples(*validation, launch.world);
  }
  if (launch.world.rank() == 0) fmt::print("statistics: {}\n", source);
  return run.train(
      {.graph = graph,
       .training = samples.training(),
       .validation = samples.validation(),
       .precision = o.run.precision,
       .title = fmt::format("Climate segmentation, {}, {} x {} points", network_title(o.run), data->layout().rows,
                            data->layout().columns),
       .options = *o.subcommand,
       .left_out = samples.reasons(),
       .mlperf = mlperf_benchmark(o.run, global_batch, steps_per_epoch),
       .sections =
           [&] {
             std::vector<app::ReportInput::Section> sections;
             sections.push_back({"Pixels", "<div class='card'>" + confusion_table(judge.confusion()) + "</div>"});
             const auto drawn = map_section(*validation, kMapped, maps->maps(), samples.of_validation());
             if (!drawn.empty()) sections.push_back({"Maps of validation data", drawn});
             return sections;
           }},
      t);
}

void declare_more(TrainOptions& o, app::Subcommand& v) {
  app::declare_training_folder(o.data, v);
  app::declare(o.stage, v);
  if (!o.training.finds_rates) app::declare(o.training.mlperf, v);
  const auto group = v.in(app::OptionGroup::data);
  v.flag("--check-data", o.check_data,
         "Read all data once before training, to refuse NaN and wrong classes at the start")
      .not_stored();
}

}  // namespace

void define_train(app::CommandLine& line) {
  app::define_train_subcommands(line, "Train a network on snapshots; data-parallel over the ranks of mpirun or srun",
                                std::make_shared<TrainOptions>(), &train, &declare_more);
}

}  // namespace keelson::climate
