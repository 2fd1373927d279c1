#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/climate/heuristics/agreement.hpp"
#include "apps/climate/subcommands.hpp"
#include "apps/climate/task.hpp"
#include "apps/common/ensemble_evaluation.hpp"
#include "apps/common/evaluation.hpp"
#include "apps/common/sample_files.hpp"
#include "apps/common/subcommand.hpp"
#include "engine/base/counted.hpp"

namespace keelson::climate {
namespace {

struct EvaluateOptions : app::EvaluationOptions {
  EvaluateOptions() { batch = 1; }
  std::string data;
  bool heuristics = false;
  double require = 0, require_margin = 0;
};

/// The results.
struct Outcome {
  Evaluation evaluation;
  const MeanImageIoU* images;
  const PooledIoU* pooled;
  std::optional<Agreement> heuristics;
  std::string judge;  ///< name of the metric that judges the network

  double heuristics_value() const {
    return judge == images->name() ? heuristics->images.mean() : mean_iou(heuristics->pixels);
  }
};

void print_confusion(const ConfusionMatrix& m) {
  fmt::print("\n{:<22}{:>18}{:>18}{:>18}   pixels, true class by predicted class\n", "", kClassNames[0], kClassNames[1],
             kClassNames[2]);
  for (int t = 0; t < kClasses; ++t)
    fmt::print("{:<22}{:>18}{:>18}{:>18}\n", kClassNames[static_cast<std::size_t>(t)], m(t, 0), m(t, 1), m(t, 2));
}

void print_table(const Outcome& r) {
  fmt::print("{}, loss {:.5f}, {:.2f} samples/s\n\n", counted(r.evaluation.samples, "sample"), r.evaluation.loss,
             static_cast<double>(r.evaluation.samples) / r.evaluation.seconds);
  const bool h = r.heuristics.has_value();
  fmt::print("{:<26}{:>14}{:>14}{}\n", "intersection over union", "all pixels", "per image", h ? "    heuristics" : "");
  const auto per_image = r.images->values(), pooled = r.pooled->values();
  for (std::size_t k = 0; k < kClasses; ++k) {
    fmt::print("{:<26}{:>14}{:>14.4f}{}\n", kClassNames[k], iou_text(pooled[k]), per_image[k],
               h ? fmt::format("{:>14}", iou_text(r.heuristics->pixels.iou(static_cast<std::int64_t>(k), NAN))) : "");
  }
  fmt::print("{:<26}{:>14.4f}{:>14.4f}{}\n", "mean", r.pooled->value(), r.images->value(),
             h ? fmt::format("{:>14.4f} (all pixels) {:.4f} (per image)", mean_iou(r.heuristics->pixels),
                             r.heuristics->images.mean())
               : "");
  print_confusion(r.pooled->confusion());
}

nlohmann::ordered_json by_class(const std::vector<double>& values) {
  nlohmann::ordered_json j;
  for (std::size_t k = 0; k < kClasses; ++k) j[kClassNames[k]] = values[k];
  return j;
}

void print_json(const Outcome& r, const std::string& checkpoint, const SnapshotDataset& data) {
  nlohmann::ordered_json j{{"checkpoint", checkpoint},
                           {"data", data.describe()},
                           {"samples", r.evaluation.samples},
                           {"loss", r.evaluation.loss},
                           {"metric", r.judge},
                           {"value", r.evaluation.metric},
                           {"mean_iou_over_all_pixels", r.pooled->value()},
                           {"mean_iou_per_image", r.images->value()},
                           {"iou_over_all_pixels", by_class(r.pooled->values())},
                           {"iou_per_image", by_class(r.images->values())}};
  for (int t = 0; t < kClasses; ++t) {
    auto& row = j["confusion"].emplace_back();
    for (int p = 0; p < kClasses; ++p) row.push_back(r.pooled->confusion()(t, p));
  }
  if (r.heuristics) {
    j["heuristics"] = {{"mean_iou_over_all_pixels", mean_iou(r.heuristics->pixels)},
                       {"mean_iou_per_image", r.heuristics->images.mean()}};
  }
  fmt::print("{}\n", j.dump(2));
}

/// Throws Error if the network is not as good as required.
void check_requirements(const EvaluateOptions& o, const Outcome& r) {
  if (o.require > 0 && !(r.evaluation.metric >= o.require))
    fail("the network is not good enough: the {} is {:.4f}, expected at least {}", r.judge, r.evaluation.metric,
         o.require);
  if (o.require_margin > 0 && !(r.evaluation.metric - r.heuristics_value() >= o.require_margin)) {
    fail(
        "the network is not good enough: the {} is {:.4f} and that of the heuristics {:.4f}, expected to be larger by "
        "at least {}",
        r.judge, r.evaluation.metric, r.heuristics_value(), o.require_margin);
  }
}

ExitCode evaluate(const EvaluateOptions& o, app::Launch& launch) {
  auto& world = launch.world;
  if (app::MemberNetworks::wanted(o, world)) {
    if (o.heuristics || o.require > 0 || o.require_margin > 0)
      refuse("--heuristics, --require, --require-margin: are for a single network; name a member of {}", o.checkpoint);
    return evaluate_ensemble(o, o.data, launch);
  }
  const auto checkpoint = open_checkpoint(o, world);
  app::check_family(checkpoint, family);
  const auto& config = checkpoint.state().config;
  const auto run = app::stored_options<RunOptions>(config);
  const auto opened = open_snapshots(run, app::find_held_out_data(o.data, run), world);
  const auto path = checkpoint.path().string();
  const SnapshotDataset data(*opened, ranges_from_text(config.contains("ranges") ? config.at("ranges") : "", path),
                             path);
  const auto graph = make_network(run, data);
  const auto metrics = make_metrics(run);
  app::NetworkEvaluation network(o, launch, checkpoint, graph, data, {.metrics = metrics});
  const auto& state = network.state();
  Outcome result;
  result.evaluation = network.run();
  result.judge = metrics[0]->name();
  for (const auto& m : metrics) {
    if (const auto* images = dynamic_cast<const MeanImageIoU*>(m.get())) result.images = images;
    if (const auto* pooled = dynamic_cast<const PooledIoU*>(m.get())) result.pooled = pooled;
  }
  if (o.heuristics || o.require_margin > 0)
    result.heuristics = heuristics_agreement(app::find_held_out_data(o.data, run), run.labels, world);
  network.end_trace();
  if (world.rank() != 0) return ExitCode::done;
  if (o.json) {
    print_json(result, path, data);
  } else {
    fmt::print("{} (epoch {}, step {})\n{}\n", path, state.epoch, state.step, data.describe());
    print_table(result);
  }
  std::fflush(stdout);
  check_requirements(o, result);
  return ExitCode::done;
}

}  // namespace

void define_evaluate(app::CommandLine& line) {
  auto o = std::make_shared<EvaluateOptions>();
  auto& v =
      line.subcommand("evaluate", "Measure a trained network on other snapshots: intersection over union by class",
                      [o](app::Launch& launch) { return evaluate(*o, launch); });
  declare_checkpoint(*o, v);
  app::declare_held_out_data(o->data, v);
  declare_evaluation(*o, v);
  declare_out_of_bag(*o, v);
  v.flag("--heuristics", o->heuristics, "Compare with the labels of the heuristics (keelson-climate label)");
  v.option("--require", o->require, "Fail (exit code 1) unless the mean IoU is at least this; 0: no requirement")
      .between(0.0, 1.0);
  v.option("--require-margin", o->require_margin,
           "Fail (exit code 1) unless the mean IoU exceeds that of the heuristics by at least this; 0: no requirement")
      .between(0.0, 1.0);
}

}  // namespace keelson::climate
