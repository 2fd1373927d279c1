#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/common/ensemble_evaluation.hpp"
#include "apps/common/sample_files.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/minerva/data/baselines.hpp"
#include "apps/minerva/report.hpp"
#include "apps/minerva/subcommands.hpp"
#include "apps/minerva/task.hpp"
#include "engine/ensemble/combination.hpp"
#include "engine/train/metrics/accuracy.hpp"

namespace keelson::minerva {
namespace {

struct EvaluateOptions : app::EvaluationOptions {
  std::string data;
  std::vector<std::string> require;
  double require_margin = 0;
};

/// What the networks, and the rules, say about the events.
struct VertexJudgement {
  const EventDataset& events;
  std::vector<app::ScoreRow> rows;
  Baselines baselines;
  std::shared_ptr<Accuracy> accuracy = std::make_shared<Accuracy>();
  std::shared_ptr<VertexMetric> vertices;
  ensemble::ClassCombination combination{1};
  double temperature = 1;
  std::string calibrated_on;

  ConfusionMatrix by_target() const { return confusion_by_target(events.options(), accuracy->confusion()); }
};

void judge(VertexJudgement& j, app::MemberNetworks& networks, const EventDataset* calibration, Communicator& world) {
  if (calibration) {
    ensemble::ClassCombination kept(1, app::kept_probabilities);
    networks.run(*calibration, {}, kept);
    j.temperature = kept.fit();
    j.calibrated_on = calibration->describe();
  }
  j.vertices = std::make_shared<VertexMetric>(std::make_shared<const VertexPlaces>(j.events));
  j.combination = ensemble::ClassCombination(j.temperature);
  networks.run(j.events, {}, j.combination, {j.accuracy, j.vertices});
  j.rows = app::class_rows(j.combination.scores());
  j.baselines = measure_baselines(j.events, world);
}

nlohmann::ordered_json to_json(const VertexJudgement& j) {
  nlohmann::ordered_json out{
      {"scores", app::scores_to_json(j.rows)},
      {"baselines", {{"first_plane", j.baselines.first_plane}, {"passive", j.baselines.passive}}},
      {"residual_in_z",
       {{"events", j.vertices->events()},
        {"mean", j.vertices->mean()},
        {"rms", j.vertices->rms()},
        {"within_plane", j.vertices->within_plane()},
        {"bin_width", VertexMetric::bin_width},
        {"histogram", j.vertices->histogram()}}}};
  out.update(app::class_facts(j.combination.scores(), j.temperature));
  out["targets"] = target_names(j.events.options());
  const ConfusionMatrix m = j.by_target();
  for (std::int64_t t = 0; t < m.classes(); ++t) {
    auto& row = out["confusion_by_target"].emplace_back();
    for (std::int64_t k = 0; k < m.classes(); ++k) row.push_back(m(t, k));
  }
  for (const double recall : j.accuracy->values())
    out["found_by_class"].push_back(std::isfinite(recall) ? nlohmann::ordered_json(recall) : nullptr);
  return out;
}

void print(const VertexJudgement& j) {
  app::print_scores(j.rows);
  fmt::print("{:<34}{:>12.4f}\n{:<34}{:>12.4f}\n", "accuracy of the first hit plane", j.baselines.first_plane,
             "accuracy of the passive rule", j.baselines.passive);
  fmt::print("\nresidual in z of {} events: mean {:.1f} mm, RMS {:.1f} mm, {:.1f} % within a plane's pitch\n",
             j.vertices->events(), j.vertices->mean(), j.vertices->rms(), 100 * j.vertices->within_plane());
  app::print_class_facts(j.combination.scores(), j.temperature, j.calibrated_on);
  const ConfusionMatrix m = j.by_target();
  const auto names = target_names(j.events.options());
  fmt::print("\n{:<12}", "true");
  for (const auto& name : names) fmt::print(" {:>10}", name);
  fmt::print("\n");
  for (std::int64_t t = 0; t < m.classes(); ++t) {
    fmt::print("{:<12}", names[static_cast<std::size_t>(t)]);
    for (std::int64_t k = 0; k < m.classes(); ++k) fmt::print(" {:>10}", m(t, k));
    fmt::print("\n");
  }
}

std::string html(const VertexJudgement& j) {
  auto rows = j.rows;
  rows.push_back({"accuracy of the first hit plane", j.baselines.first_plane, {}, true});
  rows.push_back({"accuracy of the passive rule", j.baselines.passive, {}, true});
  std::string page = "<h2>Scores</h2>" + app::score_table(rows);
  for (const auto& section : vertex_sections(j.events, j.accuracy->confusion(), *j.vertices))
    page += "<h2>" + section.title + "</h2>" + section.html;
  return page + "<h2>Calibration</h2>" + app::reliability_diagram(j.combination.scores());
}

void require_better_than_rules(const VertexJudgement& j, double margin) {
  const double better = j.accuracy->value() - std::max(j.baselines.passive, j.baselines.first_plane);
  if (margin > 0 && !(better >= margin))
    fail(
        "the network is not good enough: its accuracy is {:.4f}, those of the rules {:.4f} (first hit plane) and "
        "{:.4f} "
        "(passive), expected to be larger by at least {}",
        j.accuracy->value(), j.baselines.first_plane, j.baselines.passive, margin);
}

ExitCode evaluate(const EvaluateOptions& o, app::Launch& launch) {
  auto& world = launch.world;
  app::MemberNetworks networks(o, launch, family);
  const auto run = app::stored_options<RunOptions>(networks.state().config);
  const auto path = app::find_held_out_data(o.data, run);
  const auto events = open_events(run, path, world);
  for (std::int64_t m = 0; m < networks.size(); ++m) require_planes(*events, path, networks.checkpoint(m));
  networks.load([&](const CheckpointReader& member) {
    return make_network(app::stored_options<RunOptions>(member.state().config), events->planes());
  });
  const auto calibration = o.calibrate ? open_events(run, app::find_held_out_data("", run), world) : nullptr;
  VertexJudgement j{*events};
  judge(j, networks, calibration.get(), world);
  if (world.rank() != 0) return ExitCode::done;
  if (o.json) {
    nlohmann::ordered_json all{{"checkpoint", o.checkpoint},
                               {"members", networks.size()},
                               {"data", events->describe()},
                               {"samples", events->size()},
                               {"calibrated_on", j.calibrated_on}};
    all.update(to_json(j));
    fmt::print("{}\n", all.dump(2));
  } else {
    fmt::print("{}\n{}\n", networks.describe(), events->describe());
    print(j);
  }
  std::fflush(stdout);
  app::write_ensemble_report(o, "Vertex finding in MINERvA", networks.describe() + " on " + events->describe(),
                             html(j));
  app::check_requirements(o.require, j.rows);
  require_better_than_rules(j, o.require_margin);
  return ExitCode::done;
}

}  // namespace

void define_evaluate(app::CommandLine& line) {
  auto o = std::make_shared<EvaluateOptions>();
  auto& v = line.subcommand("evaluate", "Judge a trained network, or an ensemble, on events, beside simple rules",
                            [o](app::Launch& launch) { return evaluate(*o, launch); });
  o->batch = 64;
  declare_checkpoint(*o, v);
  app::declare_held_out_data(o->data, v);
  declare_evaluation(*o, v);
  app::declare_requirements(o->require, v, "accuracy:0.7, NLL:1");
  v.option("--require-margin", o->require_margin,
           "Fail (exit code 1) unless the accuracy exceeds that of both rules by at least this; 0: no requirement")
      .between(0.0, 1.0);
}

}  // namespace keelson::minerva
