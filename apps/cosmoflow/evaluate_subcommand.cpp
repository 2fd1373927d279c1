#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/common/ensemble_evaluation.hpp"
#include "apps/common/evaluation.hpp"
#include "apps/common/sample_files.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/common/training_targets.hpp"
#include "apps/cosmoflow/judgement.hpp"
#include "apps/cosmoflow/subcommands.hpp"
#include "apps/cosmoflow/task.hpp"
#include "engine/base/counted.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/train/training_grid.hpp"

namespace keelson::cosmoflow {
namespace {

struct EvaluateOptions : app::EvaluationOptions {
  std::string data;
  std::vector<std::string> require;
};

struct Row {
  std::string name;
  double error, baseline;
  std::optional<double> physical;  ///< the error in the user's units, if the metric is a mean absolute error
};

struct Requirement {
  std::string target;
  double ratio;
};

std::vector<Requirement> parse_requirements(const std::vector<std::string>& texts,
                                            const std::vector<TargetUnit>& targets) {
  std::vector<Requirement> all;
  for (const auto& text : texts) {
    const auto colon = text.find(':');
    const auto ratio = colon == std::string::npos ? std::nullopt : parse_number<double>(text.substr(colon + 1));
    if (!ratio || *ratio <= 0) refuse("--require: found '{}', expected TARGET:RATIO, e.g. sigma_8:0.4", text);
    const auto name = text.substr(0, colon);
    std::vector<std::string> names;
    for (const auto& t : targets) names.push_back(t.name);
    if (std::find(names.begin(), names.end(), name) == names.end())
      refuse("--require {}: no such target; there are {}", text, fmt::join(names, ", "));
    all.push_back({name, *ratio});
  }
  return all;
}

/// Throws Error if a ratio is not below the required value.
void check_requirements(const std::vector<Requirement>& requirements, const std::vector<Row>& rows) {
  std::vector<std::string> missed;
  for (const auto& q : requirements)
    for (const auto& r : rows)
      if (r.name == q.target && !(r.error / r.baseline < q.ratio))
        missed.push_back(
            fmt::format("{}: error divided by that of always predicting the mean is {:.3f}, expected below {}", r.name,
                        r.error / r.baseline, q.ratio));
  if (!missed.empty()) fail("the network is not good enough: {}", fmt::join(missed, "; "));
}

/// `relative`: errors are relative, without units.
std::vector<Row> rows_of(const TargetMetric& metric, const app::MeanBaseline& baseline, bool relative) {
  const auto errors = metric.values(), baselines = baseline.values();
  std::vector<Row> rows;
  for (std::size_t t = 0; t < errors.size(); ++t) {
    const auto& target = metric.targets()[t];
    rows.push_back(
        {target.name, errors[t], baselines[t], relative ? std::nullopt : std::optional(errors[t] * target.scale)});
  }
  return rows;
}

void print_table(const Evaluation& e, const TargetMetric& metric, const std::vector<Row>& rows,
                 const std::string& baseline_of) {
  fmt::print("{}, loss {:.5f}, {} {:.5f}\n\n", counted(e.samples, "sample"), e.loss, metric.name(), e.metric);
  fmt::print("{:<12} {:>18} {:>16} {:>8}{}\n", "target", metric.name(), "always the mean", "ratio",
             rows[0].physical ? "     MAE, physical" : "");
  for (const auto& r : rows)
    fmt::print("{:<12} {:>18.5f} {:>16.5f} {:>8.3f}{}\n", r.name, r.error, r.baseline, r.error / r.baseline,
               r.physical ? fmt::format(" {:>17.5g}", *r.physical) : "");
  fmt::print("\nalways the mean: {}\n", baseline_of);
}

void print_json(const Evaluation& e, const TargetMetric& metric, const std::vector<Row>& rows,
                const std::string& baseline_of, const std::string& checkpoint, const UniverseDataset& data,
                const Judgement* judgement) {
  nlohmann::ordered_json j{{"checkpoint", checkpoint}, {"data", data.describe()}, {"samples", e.samples},
                           {"loss", e.loss},           {"metric", metric.name()}, {"value", e.metric},
                           {"baseline", baseline_of}};
  j["targets"] = nlohmann::ordered_json::array();
  for (const auto& r : rows) {
    nlohmann::ordered_json t{
        {"name", r.name}, {"error", r.error}, {"baseline_error", r.baseline}, {"ratio", r.error / r.baseline}};
    if (r.physical) t["physical_error"] = *r.physical;
    j["targets"].push_back(t);
  }
  if (judgement)
    j["uncertainty"] = {{"calibrated_on", judgement->calibrated_on()},
                        {"scores", app::scores_to_json(judgement->rows())},
                        {"targets", judgement->targets_to_json()}};
  fmt::print("{}\n", j.dump(2));
}

ExitCode evaluate(const EvaluateOptions& o, app::Launch& launch) {
  auto& world = launch.world;
  if (app::MemberNetworks::is_ensemble(o, world)) {
    if (!o.require.empty()) refuse("--require: is for a single network; name a member of {}", o.checkpoint);
    return evaluate_ensemble(o, o.data, launch);
  }
  const auto checkpoint = open_checkpoint(o, world);
  app::check_family(checkpoint, family);
  const auto run = app::stored_options<RunOptions>(checkpoint.state().config);
  const bool judges = run.uncertainty && ranks_of(o.replica.extents()) == 1;
  if (!judges) app::MemberNetworks::refuse_options(o);
  const auto data = open_data(run, app::find_held_out_data(o.data, run), world);
  require_ranges(*data, checkpoint);
  const auto graph = make_network(run, *data);
  const auto metric = make_metric(run, *data);
  const auto requirements = parse_requirements(o.require, metric->targets());
  const auto baseline = std::make_shared<app::MeanBaseline>(metric);
  const auto mean_here = std::make_shared<app::TargetMean>();
  std::optional<app::NetworkEvaluation> network;
  network.emplace(o, launch, checkpoint, graph, *data, MetricOptions{.metrics = {metric, baseline, mean_here}});
  const RunState state = network->state();
  auto mean = app::TrainingTargets::mean(state);
  const std::string baseline_of =
      mean.empty() ? "of the samples evaluated (the checkpoint has seen no training sample)" : "of the training data";
  if (mean.empty()) {
    network->run();
    mean = mean_here->values();
  }
  baseline->set_mean(mean);
  const auto result = network->run();
  network->end_trace();
  network.reset();
  std::optional<app::MemberNetworks> alone;  // once more, as an ensemble of one
  std::optional<Judgement> judgement;
  if (judges) {
    alone.emplace(o, launch, family);
    judgement.emplace(o, *alone, run, *data, world);
  }
  if (world.rank() != 0) return ExitCode::done;

  const auto rows = rows_of(*metric, *baseline, run.net == "paper");
  if (o.json) {
    print_json(result, *metric, rows, baseline_of, checkpoint.path().string(), *data,
               judgement ? &*judgement : nullptr);
  } else {
    fmt::print("{} (epoch {}, step {})\n{}\n", checkpoint.path().string(), state.epoch, state.step, data->describe());
    print_table(result, *metric, rows, baseline_of);
    if (judgement) {
      fmt::print("NLL {:.5f}, CRPS {:.5f}, as means over the targets\n", judgement->rows()[3].ensemble,
                 judgement->rows()[2].ensemble);
      judgement->print_targets();
    } else if (run.uncertainty) {
      fmt::print("no uncertainties: each rank evaluates a part of each sample; leave out --spatial and the like\n");
    }
  }
  std::fflush(stdout);
  if (judgement)
    judgement->write_report(o, "CosmoFlow network with uncertainty",
                            checkpoint.path().string() + " on " + data->describe());
  check_requirements(requirements, rows);
  return ExitCode::done;
}

}  // namespace

void define_evaluate(app::CommandLine& line) {
  auto o = std::make_shared<EvaluateOptions>();
  auto& v = line.subcommand(
      "evaluate",
      "Measure the errors of a trained network on other universes, and compare with always predicting the mean",
      [o](app::Launch& launch) { return evaluate(*o, launch); });
  declare_checkpoint(*o, v);
  app::declare_held_out_data(o->data, v);
  declare_evaluation(*o, v);
  declare_out_of_bag(*o, v);
  v.option_without_default("--require", o->require,
                           "Fail (exit code 1) unless the target's error, divided by the error of always predicting "
                           "the mean, is below RATIO",
                           "TARGET:RATIO,...")
      .comma_separated();
}

}  // namespace keelson::cosmoflow
