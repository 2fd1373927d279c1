#include <fmt/format.h>

#include <cmath>

#include "apps/common/ensemble_evaluation.hpp"
#include "apps/common/sample_files.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/cosmoflow/subcommands.hpp"
#include "apps/cosmoflow/task.hpp"
#include "engine/base/counted.hpp"

namespace keelson::cosmoflow {
namespace {

using ensemble::ValueEnsemble;

/// The scores, as means over the targets.
std::vector<app::ScoreRow> value_rows(const std::vector<ValueEnsemble>& targets, const TargetMetric& of_ensemble,
                                      const std::vector<ensemble::EnsembleEvaluator::Metrics>& of_members) {
  std::vector<app::ScoreRow> rows{
      {of_ensemble.name(), of_ensemble.value(), {}}, {"MSE", 0, {}}, {"CRPS", 0, {}}, {"NLL", 0, {}}};
  for (const auto& m : of_members) rows[0].members.push_back(m[0]->value());
  rows[1].members.resize(of_members.size());
  rows[2].members.resize(of_members.size());
  const auto n = static_cast<double>(targets.size());
  for (const auto& t : targets) {
    rows[1].ensemble += t.ensemble().mse / n;
    rows[2].ensemble += t.crps() / n;
    rows[3].ensemble += t.nll() / n;
    const auto errors = t.members();
    const auto crps = t.member_crps();
    for (std::size_t m = 0; m < of_members.size(); ++m) {
      rows[1].members[m] += errors[m].mse / n;
      rows[2].members[m] += crps[m] / n;
    }
  }
  return rows;
}

void print_targets(const std::vector<ValueEnsemble>& targets, const TargetMetric& metric,
                   const std::vector<double>& scales) {
  fmt::print("\n{:<12}{:>20}{:>15}{:>14}{:>14}{:>14}{:>16}\n", "target", metric.name(), "epistemic std", "in 50 %",
             "in 90 %", "members' CRPS", "variance scale");
  const auto errors = metric.values();
  for (std::size_t t = 0; t < targets.size(); ++t)
    fmt::print("{:<12}{:>20.5f}{:>15.5f}{:>12.1f} %{:>12.1f} %{:>14.5f}{:>16}\n", metric.targets()[t].name, errors[t],
               targets[t].epistemic_deviation(), 100 * targets[t].coverage(0.5), 100 * targets[t].coverage(0.9),
               targets[t].fair_crps_of_members(), scales.empty() ? "1" : fmt::format("{:.3f}", scales[t]));
  fmt::print(
      "\nin 50 %, in 90 %: true values in these central intervals of the ensemble's normal distribution; in the units "
      "of "
      "training\n");
}

nlohmann::ordered_json targets_to_json(const std::vector<ValueEnsemble>& targets, const TargetMetric& metric,
                                       const std::vector<double>& scales) {
  auto all = nlohmann::ordered_json::array();
  const auto errors = metric.values();
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const auto& e = targets[t];
    const auto fair = e.fair_crps_of_members();
    all.push_back({{"name", metric.targets()[t].name},
                   {"error", errors[t]},
                   {"mae", e.ensemble().mae},
                   {"mse", e.ensemble().mse},
                   {"aleatoric_variance", e.aleatoric()},
                   {"epistemic_variance", e.epistemic()},
                   {"epistemic_std", e.epistemic_deviation()},
                   {"coverage_50", e.coverage(0.5)},
                   {"coverage_90", e.coverage(0.9)},
                   {"crps_of_members", e.crps_of_members()},
                   {"variance_scale", scales.empty() ? 1 : scales[t]},
                   {"pit", e.pit().counts()}});
    all.back()["fair_crps_of_members"] = std::isfinite(fair) ? nlohmann::ordered_json(fair) : nullptr;
    const auto members = e.members();
    for (const auto& m : members) all.back()["members"].push_back({{"mae", m.mae}, {"mse", m.mse}});
  }
  return all;
}

}  // namespace

ExitCode evaluate_ensemble(const app::EvaluationOptions& o, const std::string& folder, app::Launch& launch) {
  auto& world = launch.world;
  app::MemberNetworks networks(o, launch, family);
  const auto run = app::stored_options<RunOptions>(networks.state().config);
  const auto data = open_data(run, app::find_held_out_data(folder, run), world);
  for (std::int64_t m = 0; m < networks.size(); ++m) require_ranges(*data, networks.checkpoint(m));
  const auto graph = make_network(run, *data);
  networks.load(graph);

  std::vector<double> scales;
  std::string calibrated_on;
  if (o.calibrate) {
    const auto validation = open_data(run, app::find_held_out_data("", run), world);
    ensemble::ValueCombination fitted;
    networks.run(*validation, "prediction", fitted);
    scales = fitted.scales();
    calibrated_on = validation->describe();
    for (const double s : scales)
      if (!std::isfinite(s) || s <= 0)
        refuse(
            "--calibrate: members of {} agree exactly on a sample, so no scale of their variance fits; train more "
            "members, with other seeds",
            o.checkpoint);
  }
  const auto metric = make_metric(run, *data);
  std::vector<ensemble::EnsembleEvaluator::Metrics> of_members;
  for (std::int64_t m = 0; m < networks.size(); ++m) of_members.push_back({make_metric(run, *data)});
  ensemble::ValueCombination combination(scales);
  networks.run(*data, "prediction", combination, {metric}, of_members);
  if (world.rank() != 0) return ExitCode::done;

  const auto& targets = combination.targets();
  const auto rows = value_rows(targets, *metric, of_members);
  if (o.json) {
    nlohmann::ordered_json j{{"ensemble", o.checkpoint}, {"members", networks.size()},
                             {"data", data->describe()}, {"samples", data->size()},
                             {"metric", metric->name()}, {"calibrated_on", calibrated_on}};
    j["scores"] = app::scores_to_json(rows);
    j["targets"] = targets_to_json(targets, *metric, scales);
    fmt::print("{}\n", j.dump(2));
  } else {
    fmt::print("{}\n{}\n{}\n", networks.describe(), data->describe(), counted(data->size(), "sample"));
    app::print_scores(rows);
    print_targets(targets, *metric, scales);
    if (!calibrated_on.empty()) fmt::print("variance scales fitted on {}\n", calibrated_on);
  }
  std::fflush(stdout);
  std::vector<std::string> names;
  for (const auto& t : metric->targets()) names.push_back(t.name);
  app::write_ensemble_report(
      o, "CosmoFlow ensemble", networks.describe() + " on " + data->describe(),
      "<h2>Scores</h2>" + app::score_table(rows) + "<h2>Calibration</h2>" + app::pit_histograms(targets, names));
  return ExitCode::done;
}

}  // namespace keelson::cosmoflow
