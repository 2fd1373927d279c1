#include "apps/cosmoflow/judgement.hpp"

#include <fmt/format.h>

#include <cmath>

#include "apps/common/sample_files.hpp"
#include "apps/common/subcommand.hpp"

namespace keelson::cosmoflow {
namespace {

nlohmann::ordered_json number_or_null(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

Judgement::Judgement(const app::EvaluationOptions& o, app::MemberNetworks& networks, const RunOptions& run,
                     const UniverseDataset& data, Communicator& world) {
  networks.load([&](const CheckpointReader& member) {
    const auto of_member = app::stored_options<RunOptions>(member.state().config);
    if (of_member.uncertainty != run.uncertainty)
      refuse("{}: its network {} variances, unlike that of {}. Expected members that are alike in --uncertainty",
             member.path().string(), of_member.uncertainty ? "predicts" : "predicts no",
             networks.checkpoint(0).path().string());
    return make_network(of_member, data);
  });
  if (run.uncertainty) outputs_.variance = "variance";
  if (o.calibrate) calibrate(o, networks, run, world);
  metric_ = make_metric(run, data);
  std::vector<ensemble::EnsembleEvaluator::Metrics> of_members;
  for (std::int64_t m = 0; m < networks.size(); ++m) of_members.push_back({make_metric(run, data)});
  ensemble::ValueCombination combination(scales_);
  networks.run(data, outputs_, combination, {metric_}, of_members);
  targets_ = combination.targets();
  fill_rows(of_members);
}

void Judgement::calibrate(const app::EvaluationOptions& o, app::MemberNetworks& networks, const RunOptions& run,
                          Communicator& world) {
  const auto validation = open_data(run, app::find_held_out_data("", run), world);
  ensemble::ValueCombination fitted;
  networks.run(*validation, outputs_, fitted);
  scales_ = fitted.scales();
  calibrated_on_ = validation->describe();
  for (const double s : scales_)
    if (!std::isfinite(s) || s <= 0)
      refuse(
          "--calibrate: members of {} agree exactly on a sample, so no scale of their variance fits; train more "
          "members, with other seeds",
          o.checkpoint);
}

void Judgement::fill_rows(const std::vector<ensemble::EnsembleEvaluator::Metrics>& of_members) {
  rows_ = {{metric_->name(), metric_->value(), {}}, {"MSE", 0, {}}, {"CRPS", 0, {}}, {"NLL", 0, {}}};
  for (const auto& m : of_members) rows_[0].members.push_back(m[0]->value());
  for (const std::size_t r : {1, 2}) rows_[r].members.resize(of_members.size());
  if (!outputs_.variance.empty()) rows_[3].members.resize(of_members.size());
  const auto n = static_cast<double>(targets_.size());
  for (const auto& t : targets_) {
    rows_[1].ensemble += t.ensemble().mse / n;
    rows_[2].ensemble += t.crps() / n;
    rows_[3].ensemble += t.nll() / n;
    const auto errors = t.members();
    const auto crps = t.member_crps(), nll = t.member_nll();
    for (std::size_t m = 0; m < of_members.size(); ++m) {
      rows_[1].members[m] += errors[m].mse / n;
      rows_[2].members[m] += crps[m] / n;
      if (!rows_[3].members.empty()) rows_[3].members[m] += nll[m] / n;
    }
  }
}

void Judgement::print_targets() const {
  fmt::print("\n{:<12}{:>20}{:>15}{:>15}{:>14}{:>14}{:>14}{:>16}\n", "target", metric_->name(), "aleatoric std",
             "epistemic std", "in 50 %", "in 90 %", "members' CRPS", "variance scale");
  const auto errors = metric_->values();
  for (std::size_t t = 0; t < targets_.size(); ++t)
    fmt::print("{:<12}{:>20.5f}{:>15.5f}{:>15.5f}{:>12.1f} %{:>12.1f} %{:>14}{:>16}\n", metric_->targets()[t].name,
               errors[t], targets_[t].aleatoric_deviation(), targets_[t].epistemic_deviation(),
               100 * targets_[t].coverage(0.5), 100 * targets_[t].coverage(0.9),
               std::isfinite(targets_[t].fair_crps_of_members())
                   ? fmt::format("{:.5f}", targets_[t].fair_crps_of_members())
                   : "-",
               scales_.empty() ? "1" : fmt::format("{:.3f}", scales_[t]));
  fmt::print(
      "\nin 50 %, in 90 %: true values in these central intervals of the predicted normal distribution, whose variance "
      "is the sum of the aleatoric and the epistemic one; in the units of training\n");
  if (!calibrated_on_.empty()) fmt::print("variance scales fitted on {}\n", calibrated_on_);
}

nlohmann::ordered_json Judgement::targets_to_json() const {
  auto all = nlohmann::ordered_json::array();
  const auto errors = metric_->values();
  for (std::size_t t = 0; t < targets_.size(); ++t) {
    const auto& e = targets_[t];
    all.push_back({{"name", metric_->targets()[t].name},
                   {"error", errors[t]},
                   {"mae", e.ensemble().mae},
                   {"mse", e.ensemble().mse},
                   {"aleatoric_variance", e.aleatoric()},
                   {"epistemic_variance", e.epistemic()},
                   {"variance", e.aleatoric() + e.epistemic()},
                   {"aleatoric_std", e.aleatoric_deviation()},
                   {"epistemic_std", e.epistemic_deviation()},
                   {"nll", number_or_null(e.nll())},
                   {"crps", e.crps()},
                   {"coverage_50", e.coverage(0.5)},
                   {"coverage_90", e.coverage(0.9)},
                   {"crps_of_members", e.crps_of_members()},
                   {"fair_crps_of_members", number_or_null(e.fair_crps_of_members())},
                   {"variance_scale", scales_.empty() ? 1 : scales_[t]},
                   {"pit", e.pit().counts()}});
    for (const auto& m : e.members()) all.back()["members"].push_back({{"mae", m.mae}, {"mse", m.mse}});
  }
  return all;
}

void Judgement::write_report(const app::EvaluationOptions& o, const std::string& title, const std::string& subtitle,
                             const std::string& html) const {
  std::string table =
      "<div class='card'><table class='narrow'><tr><th></th><th class='n'>aleatoric std</th><th class='n'>epistemic "
      "std</th><th class='n'>in 50 %</th><th class='n'>in 90 %</th></tr>";
  std::vector<std::string> names;
  for (std::size_t t = 0; t < targets_.size(); ++t) {
    names.push_back(metric_->targets()[t].name);
    table += fmt::format(
        "<tr><td>{}</td><td class='n'>{:.5f}</td><td class='n'>{:.5f}</td><td class='n'>{:.1f} %</td><td "
        "class='n'>{:.1f} %</td></tr>",
        names.back(), targets_[t].aleatoric_deviation(), targets_[t].epistemic_deviation(),
        100 * targets_[t].coverage(0.5), 100 * targets_[t].coverage(0.9));
  }
  app::write_ensemble_report(o, title, subtitle,
                             "<h2>Scores</h2>" + app::score_table(rows_) + "<h2>Uncertainty</h2>" + table +
                                 "</table></div><h2>Calibration</h2>" + app::pit_histograms(targets_, names) + html);
}

}  // namespace keelson::cosmoflow
