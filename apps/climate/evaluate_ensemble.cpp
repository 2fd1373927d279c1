#include <fmt/format.h>

#include "apps/climate/subcommands.hpp"
#include "apps/climate/task.hpp"
#include "apps/common/ensemble_evaluation.hpp"
#include "apps/common/sample_files.hpp"
#include "apps/common/subcommand.hpp"
#include "engine/base/counted.hpp"

namespace keelson::climate {

ExitCode evaluate_ensemble(const app::EvaluationOptions& o, const std::string& folder, app::Launch& launch) {
  auto& world = launch.world;
  app::MemberNetworks networks(o, launch, family);
  const auto& config = networks.state().config;
  const auto run = app::stored_options<RunOptions>(config);
  const auto path = networks.checkpoint(0).path().string();
  const auto ranges = config.contains("ranges") ? config.at("ranges") : "";
  for (std::int64_t m = 1; m < networks.size(); ++m) {
    const auto& other = networks.checkpoint(m).state().config;
    if ((other.contains("ranges") ? other.at("ranges") : "") != ranges)
      refuse("{}: has other statistics of the channels than {}. Expected members that see the same data",
             networks.checkpoint(m).path().string(), path);
  }
  const auto open = [&](const std::string& data) {
    const auto opened = open_snapshots(run, data, world);
    return std::make_unique<SnapshotDataset>(*opened, ranges_from_text(ranges, path), path);
  };
  const auto data = open(app::find_held_out_data(folder, run));
  networks.load([&](const CheckpointReader& member) {
    return make_network(app::stored_options<RunOptions>(member.state().config), *data);
  });

  double temperature = 1;
  std::string calibrated_on;
  if (o.calibrate) {
    const auto validation = open(app::find_held_out_data("", run));
    ensemble::ClassCombination kept(1, app::kept_probabilities);
    networks.run(*validation, {}, kept);
    temperature = kept.fit();
    calibrated_on = validation->describe();
  }
  const auto metrics = make_metrics(run);
  std::vector<ensemble::EnsembleEvaluator::Metrics> of_members;
  for (std::int64_t m = 0; m < networks.size(); ++m) of_members.push_back(make_metrics(run));
  ensemble::ClassCombination combination(temperature);
  networks.run(*data, {}, combination, metrics, of_members);
  const auto out_of_bag = app::list_out_of_bag(o, networks, world, [&] { return open(run.train); });
  if (world.rank() != 0) return ExitCode::done;

  const auto& scores = combination.scores();
  auto rows = app::class_rows(scores);
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    app::ScoreRow row{metrics[i]->name(), metrics[i]->value(), {}, metrics[i]->higher_is_better()};
    for (const auto& m : of_members) row.members.push_back(m[i]->value());
    rows.push_back(std::move(row));
  }
  if (o.json) {
    nlohmann::ordered_json j{{"ensemble", o.checkpoint},
                             {"members", networks.size()},
                             {"data", data->describe()},
                             {"samples", data->size()},
                             {"calibrated_on", calibrated_on}};
    j["scores"] = app::scores_to_json(rows);
    j.update(app::class_facts(scores, temperature));
    fmt::print("{}\n", j.dump(2));
  } else {
    fmt::print("{}\n{}\n{}\n", networks.describe(), data->describe(), counted(data->size(), "sample"));
    app::print_scores(rows);
    app::print_class_facts(scores, temperature, calibrated_on);
  }
  std::fflush(stdout);
  app::write_ensemble_report(o, "Climate segmentation ensemble", networks.describe() + " on " + data->describe(),
                             "<h2>Scores</h2>" + app::score_table(rows) + "<h2>Calibration</h2>" +
                                 app::reliability_diagram(scores) + out_of_bag);
  return ExitCode::done;
}

}  // namespace keelson::climate
