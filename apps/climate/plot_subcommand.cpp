#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "apps/climate/maps/predicted_maps.hpp"
#include "apps/climate/maps/sections.hpp"
#include "apps/climate/subcommands.hpp"
#include "apps/climate/task.hpp"
#include "apps/common/evaluation.hpp"
#include "apps/common/report/metrics_file.hpp"
#include "apps/common/report/report_style.hpp"
#include "apps/common/report/svg_plot.hpp"
#include "apps/common/subcommand.hpp"
#include "engine/base/atomic_file.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/ranks.hpp"

namespace keelson::climate {
namespace {

namespace fs = std::filesystem;
using app::plot::escape;

struct PlotOptions : app::EvaluationOptions {
  PlotOptions() { batch = 1; }
  std::string data, out = "maps.html";
  std::int64_t snapshots = 3;
  int labels = 0;
};

std::string card(const std::string& inside) { return "<div class='card'>" + inside + "</div>"; }

/// A plot of each class's IoU over the epochs of a checkpoint's run; empty if the run has no metrics file.
std::string epochs_plot(const fs::path& checkpoint) {
  const auto history = app::read_metrics(fs::absolute(checkpoint).parent_path().parent_path() / "metrics.jsonl");
  app::plot::Plot p{"Validation, intersection over union by class", {"epoch"}, {"IoU"}};
  for (std::size_t k = 0; k < kClasses; ++k) {
    app::plot::Series s{kClassNames[k], {}, {}, app::plot::Series::Mark::both, static_cast<int>(k) + 1};
    for (const auto& e : history.epochs) {
      if (e.metric_values.size() != kClasses) continue;
      s.x.push_back(static_cast<double>(e.epoch));
      s.y.push_back(e.metric_values[k]);
    }
    if (!s.x.empty()) p.series.push_back(std::move(s));
  }
  return p.series.empty() ? "" : card(svg(p));
}

std::string page(const std::string& title, const std::string& subtitle, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' "
      "content='width=device-width,initial-scale=1'><title>{}</title><style>{}</style></head><body><main><h1>{}</h1><p "
      "class='sub'>{}</p>{}</main></body></html>\n",
      escape(title), app::report_style, escape(title), escape(subtitle), body);
}

/// The page's sections about a trained network, on rank 0. Collective.
std::string network_sections(const PlotOptions& o, app::Launch& launch, const CheckpointReader& checkpoint,
                             const RunOptions& run, const SnapshotDataset& opened, const std::string& path) {
  auto& world = launch.world;
  const auto& config = checkpoint.state().config;
  const auto name = checkpoint.path().string();
  const SnapshotDataset data(opened, ranges_from_text(config.contains("ranges") ? config.at("ranges") : "", name),
                             name);
  const auto graph = make_network(run, data);
  const auto images = std::make_shared<MeanImageIoU>();
  const auto maps = std::make_shared<PredictedMaps>(o.snapshots);
  app::NetworkEvaluation network(o, launch, checkpoint, graph, data, {.metrics = {images, maps}});
  network.run();
  const auto heuristics = heuristics_agreement(path, run.labels, world);
  if (world.rank() != 0) return "";
  auto columns = columns_of("network", images->confusion(), images->values(), images->value());
  for (auto& c : columns_of("heuristics", heuristics.pixels, heuristics.images.of_classes(), heuristics.images.mean()))
    columns.push_back(std::move(c));
  return fmt::format("<h2>{}, epoch {}</h2>{}{}<h2>Pixels</h2>{}<h2>Maps</h2>{}", network_title(run),
                     network.state().epoch, card(iou_table(columns)), epochs_plot(checkpoint.path()),
                     card(confusion_table(images->confusion())), map_section(data, o.snapshots, maps->maps()));
}

ExitCode plot(const PlotOptions& o, app::Launch& launch) {
  auto& world = launch.world;
  std::string body, subtitle;
  if (o.checkpoint.empty()) {
    if (o.data.empty()) refuse("give --data: snapshots, as a file, folder or pattern; or --checkpoint: a run");
    const SnapshotDataset data(o.data, {.labels = o.labels, .needs_labels = false}, &world);
    subtitle = data.describe();
    on_first_rank(&world, [&] { body = map_section(data, o.snapshots, {}); });
  } else {
    const auto checkpoint = open_checkpoint(o, world);
    app::check_family(checkpoint, family);
    const auto run = app::stored_options<RunOptions>(checkpoint.state().config);
    const auto path = o.data.empty() ? run.validation : o.data;
    if (path.empty()) refuse("the run had no validation data: give --data");
    const auto opened = open_snapshots(run, path, world);
    subtitle = fmt::format("{}; {}", checkpoint.path().string(), opened->describe());
    body = network_sections(o, launch, checkpoint, run, *opened, path);
  }
  on_first_rank(&world, [&] {
    write_atomically(o.out, page("Tropical cyclones and atmospheric rivers", subtitle, body), Target::output);
    fmt::print("{}\n", o.out);
  });
  return ExitCode::done;
}

}  // namespace

void define_plot(app::CommandLine& line) {
  auto o = std::make_shared<PlotOptions>();
  auto& v =
      line.subcommand("plot",
                      "Draw maps of snapshots with outlines of truth, heuristics and a network's prediction, and show "
                      "how well they agree, on one HTML page",
                      [o](app::Launch& launch) { return plot(*o, launch); });
  v.option_without_default(
       "--data", o->data, "Snapshots: HDF5, NetCDF or .npy file, folder or pattern; default: the run's validation data",
       "PATH")
      .differs_between_ranks();
  declare_checkpoint(*o, v);
  v.option("--out", o->out, "The page", "FILE").output();
  v.option("--snapshots", o->snapshots, "Number of snapshots to draw, from the first one", "N").positive();
  v.option("--labels", o->labels, "Without a checkpoint: which labels are the truth", "MAP").between(0, 1);
}

}  // namespace keelson::climate
