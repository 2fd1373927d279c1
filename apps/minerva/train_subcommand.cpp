#include <fmt/format.h>

#include "apps/common/left_out.hpp"
#include "apps/common/train_subcommand.hpp"
#include "apps/minerva/report.hpp"
#include "apps/minerva/subcommands.hpp"
#include "apps/minerva/task.hpp"
#include "engine/train/metrics/accuracy.hpp"

namespace keelson::minerva {
namespace {

using TrainOptions = app::TrainOptions<RunOptions>;

ExitCode train(TrainOptions& o, app::Launch& launch) {
  app::TrainingRun run(o.training, launch);
  run.complete(*o.subcommand, family, !o.data.empty(), o.run, recipes());
  app::complete_files(o.run, o.data);
  check(o.run);
  const auto data = open_events(o.run, o.run.train, launch.world);
  const auto validation = o.run.validation.empty() ? nullptr : open_events(o.run, o.run.validation, launch.world);
  if (validation && validation->planes() != data->planes())
    refuse("{}: has images of {} planes in the view x, and {} of {}. Expected the same", o.run.train, data->planes(),
           o.run.validation, validation->planes());
  if (run.model()) require_planes(*data, o.run.train, *run.model());
  const Graph graph = make_network(o.run, data->planes());
  auto t = run.trainer_options(o.run);
  const app::LeftOut samples(*data, validation.get(), o.run.skip_broken, t.threads.count, launch.world);
  require_enough_samples(samples.training().size(), t.batch, run.grid().data, samples.training().describe(),
                         ranks_of(t.replica));
  t.network = network_name(o.run);
  t.config = o.subcommand->values();
  app::store_paths(o.run, t.config);
  t.shuffle = o.run.shuffle;
  t.target = o.run.target_accuracy;
  const auto accuracy = std::make_shared<Accuracy>();
  std::shared_ptr<VertexMetric> vertices;
  t.evaluation.metrics = {accuracy};
  // With samples left out, the numbers of the others are not those of the files.
  if (validation && o.run.skip_broken == 0) {
    vertices = std::make_shared<VertexMetric>(std::make_shared<const VertexPlaces>(*validation));
    t.evaluation.metrics.push_back(vertices);
  }
  return run.train({.graph = graph,
                    .training = samples.training(),
                    .validation = samples.validation(),
                    .precision = o.run.precision,
                    .title = fmt::format("Vertex finding in MINERvA, {} network, {} classes",
                                         o.run.net == "epsilon" ? "Epsilon" : "evolved", data->classes()),
                    .options = *o.subcommand,
                    .left_out = samples.reasons(),
                    .sections =
                        [&] {
                          return vertices ? vertex_sections(*validation, accuracy->confusion(), *vertices)
                                          : std::vector<app::ReportInput::Section>{};
                        }},
                   t);
}

void declare_more(TrainOptions& o, app::Subcommand& v) { app::declare_training_folder(o.data, v); }

}  // namespace

void define_train(app::CommandLine& line) {
  app::define_train_subcommands(line, "Train a network on events; data-parallel over the ranks of mpirun or srun",
                                std::make_shared<TrainOptions>(), &train, &declare_more);
}

}  // namespace keelson::minerva
