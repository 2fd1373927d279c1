#include "apps/tabular/evaluation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/common/report/svg_bars.hpp"
#include "engine/base/error.hpp"
#include "engine/ensemble/combination.hpp"

namespace keelson::tabular {
namespace {

using Metrics = ensemble::EnsembleEvaluator::Metrics;

class JudgedClasses final : public Judged {
 public:
  JudgedClasses(app::MemberNetworks& networks, const ScaledRows& rows, const ScaledRows* calibration)
      : scaling_(rows.scaling()), metrics_("auto", scaling_) {
    if (calibration) {
      ensemble::ClassCombination kept(1, app::kept_probabilities);
      networks.run(*calibration, {}, kept);
      temperature_ = kept.fit();
      calibrated_on_ = calibration->describe();
    }
    std::vector<ClassMetrics> of_members;
    for (std::int64_t m = 0; m < networks.size(); ++m) of_members.emplace_back("auto", scaling_);
    std::vector<Metrics> member_metrics;
    for (const auto& m : of_members) member_metrics.push_back(m.all);
    combination_ = ensemble::ClassCombination(temperature_);
    networks.run(rows, {}, combination_, metrics_.all, member_metrics);
    rows_ = app::class_rows(combination_.scores());
    app::ScoreRow areas{metrics_.auc->name(), metrics_.auc->value(), {}, true};
    for (const auto& m : of_members) areas.members.push_back(m.auc->value());
    rows_.push_back(std::move(areas));
  }

  nlohmann::ordered_json facts() const override {
    auto j = app::class_facts(combination_.scores(), temperature_);
    const auto& confusion = metrics_.accuracy->confusion();
    for (std::int64_t t = 0; t < confusion.classes(); ++t) {
      nlohmann::ordered_json predicted;
      for (std::int64_t k = 0; k < confusion.classes(); ++k) predicted.push_back(confusion(t, k));
      j["classes"].push_back(class_name(scaling_, t));
      j["confusion"].push_back(predicted);
    }
    return j;
  }

  void print() const override {
    app::print_class_facts(combination_.scores(), temperature_, calibrated_on_);
    const auto& confusion = metrics_.accuracy->confusion();
    constexpr std::int64_t most_columns = 12;
    if (confusion.classes() > most_columns) return;
    fmt::print("\n{:<16}", "true, predicted");
    for (std::int64_t k = 0; k < confusion.classes(); ++k) fmt::print(" {:>11.11}", class_name(scaling_, k));
    fmt::print("\n");
    for (std::int64_t t = 0; t < confusion.classes(); ++t) {
      fmt::print("{:<16.16}", class_name(scaling_, t));
      for (std::int64_t k = 0; k < confusion.classes(); ++k) fmt::print(" {:>11}", confusion(t, k));
      fmt::print("\n");
    }
  }

  std::string html() const override {
    std::string html = "<h2>Calibration</h2>" + app::reliability_diagram(combination_.scores());
    for (const auto& section : class_sections(metrics_, scaling_))
      html += "<h2>" + section.title + "</h2>" + section.html;
    return html;
  }

  std::string loss_name() const override { return "NLL"; }
  double loss() const override { return combination_.scores().ensemble().nll(); }
  double loss_on(app::MemberNetworks& networks, const Dataset& rows) const override {
    ensemble::ClassCombination combination(temperature_);
    networks.run(rows, {}, combination);
    return combination.scores().ensemble().nll();
  }

 private:
  const Scaling& scaling_;
  ClassMetrics metrics_;
  double temperature_ = 1;
  std::string calibrated_on_;
  ensemble::ClassCombination combination_;
};

class JudgedNumbers final : public Judged {
 public:
  JudgedNumbers(app::MemberNetworks& networks, const ScaledRows& rows, const ScaledRows* calibration)
      : scaling_(rows.scaling()), units_(target_units(scaling_)) {
    if (calibration) {
      if (networks.size() == 1)
        refuse("--calibrate: one network predicts no uncertainty; expected an ensemble, which train --members makes");
      ensemble::ValueCombination fitted;
      networks.run(*calibration, {}, fitted);
      scales_ = fitted.scales();
    }
    const auto error = std::make_shared<MeanAbsoluteError>(units_);
    const auto baseline = std::make_shared<app::MeanBaseline>(error);
    baseline->set_mean(std::vector<double>(units_.size(), 0.0));  // that of the training rows, as they are scaled
    const auto spread = std::make_shared<Spread>();
    ensemble::ValueCombination combination(scales_);
    networks.run(rows, {}, combination, {error, baseline, spread});
    targets_ = combination.targets();
    baselines_ = baseline->values();
    squares_ = spread->values();
    fill_rows(networks.size());
  }

  nlohmann::ordered_json facts() const override {
    nlohmann::ordered_json j;
    for (std::size_t t = 0; t < targets_.size(); ++t)
      j["targets"].push_back({{"name", units_[t].name},
                              {"mae", targets_[t].ensemble().mae * units_[t].scale},
                              {"rmse", std::sqrt(targets_[t].ensemble().mse) * units_[t].scale},
                              {"r2", explained(t)},
                              {"mae_of_mean", baselines_[t] * units_[t].scale}});
    return j;
  }

  void print() const override {
    fmt::print("\n{:<20} {:>14} {:>14} {:>10} {:>22}\n", "target", "MAE", "RMSE", "R2", "MAE, always the mean");
    for (std::size_t t = 0; t < targets_.size(); ++t)
      fmt::print("{:<20} {:>14.6g} {:>14.6g} {:>10.4f} {:>22.6g}\n", units_[t].name,
                 targets_[t].ensemble().mae * units_[t].scale, std::sqrt(targets_[t].ensemble().mse) * units_[t].scale,
                 explained(t), baselines_[t] * units_[t].scale);
    fmt::print("\nin the units of the table; the scores above are in standard deviations of the training rows\n");
  }

  std::string html() const override {
    std::string html =
        "<h2>Targets</h2><div class='card'><table class='narrow'><tr><th>target</th><th class='n'>MAE</th><th "
        "class='n'>RMSE</th><th class='n'>R2</th><th class='n'>MAE, always the mean</th></tr>";
    for (std::size_t t = 0; t < targets_.size(); ++t)
      html += fmt::format(
          "<tr><td>{}</td><td class='n'>{:.6g}</td><td class='n'>{:.6g}</td><td class='n'>{:.4f}</td><td "
          "class='n'>{:.6g}</td></tr>",
          units_[t].name, targets_[t].ensemble().mae * units_[t].scale,
          std::sqrt(targets_[t].ensemble().mse) * units_[t].scale, explained(t), baselines_[t] * units_[t].scale);
    std::vector<std::string> names;
    for (const auto& u : units_) names.push_back(u.name);
    html += "</table></div>";
    const bool distributions = targets_[0].members().size() > 1;
    return distributions ? html + "<h2>Calibration</h2>" + app::pit_histograms(targets_, names) : html;
  }

  std::string loss_name() const override { return "MSE"; }
  double loss() const override { return mean_square(targets_); }
  double loss_on(app::MemberNetworks& networks, const Dataset& rows) const override {
    ensemble::ValueCombination combination;
    networks.run(rows, {}, combination);
    return mean_square(combination.targets());
  }

 private:
  /// The mean square of the targets, about the mean of the training rows, and their mean.
  class Spread final : public TargetMetric {
   public:
    std::string name() const override { return "variance"; }
    double measure(std::size_t, double, double truth) const override { return truth * truth; }
  };

  static double mean_square(const std::vector<ensemble::ValueEnsemble>& targets) {
    double sum = 0;
    for (const auto& t : targets) sum += t.ensemble().mse;
    return sum / static_cast<double>(targets.size());
  }

  /// 1 - MSE / MSE of always predicting the training rows' mean.
  double explained(std::size_t t) const { return 1 - targets_[t].ensemble().mse / squares_[t]; }

  void fill_rows(std::int64_t members) {
    const auto n = static_cast<double>(targets_.size());
    rows_ = {{"MAE", 0, {}}, {"RMSE", 0, {}}, {"R2", 0, {}, true}, {"CRPS", 0, {}}};
    for (auto& row : rows_) row.members.resize(static_cast<std::size_t>(members));
    for (std::size_t t = 0; t < targets_.size(); ++t) {
      const auto all = targets_[t].ensemble();
      const auto each = targets_[t].members();
      const auto crps = targets_[t].member_crps();
      rows_[0].ensemble += all.mae / n;
      rows_[1].ensemble += std::sqrt(all.mse) / n;
      rows_[2].ensemble += explained(t) / n;
      rows_[3].ensemble += targets_[t].crps() / n;
      for (std::size_t m = 0; m < each.size(); ++m) {
        rows_[0].members[m] += each[m].mae / n;
        rows_[1].members[m] += std::sqrt(each[m].mse) / n;
        rows_[2].members[m] += (1 - each[m].mse / squares_[t]) / n;
        rows_[3].members[m] += crps[m] / n;
      }
    }
    if (members == 1) rows_.pop_back();  // a point has no distribution
  }

  const Scaling& scaling_;
  std::vector<TargetUnit> units_;
  std::vector<double> scales_, baselines_, squares_;
  std::vector<ensemble::ValueEnsemble> targets_;
};

}  // namespace

std::unique_ptr<Judged> judge_classes(app::MemberNetworks& networks, const ScaledRows& rows,
                                      const ScaledRows* calibration) {
  return std::make_unique<JudgedClasses>(networks, rows, calibration);
}

std::unique_ptr<Judged> judge_numbers(app::MemberNetworks& networks, const ScaledRows& rows,
                                      const ScaledRows* calibration) {
  return std::make_unique<JudgedNumbers>(networks, rows, calibration);
}

std::vector<Importance> measure_importance(app::MemberNetworks& networks, const ScaledRows& rows, const Judged& judged,
                                           std::int64_t times) {
  std::vector<Importance> all;
  if (times == 0) return all;
  const auto& features = rows.scaling().features;
  for (std::size_t f = 0; f < features.size(); ++f) {
    double sum = 0, squares = 0;
    for (std::int64_t k = 0; k < times; ++k) {
      const ShuffledFeature shuffled(rows, f, static_cast<std::uint64_t>(k));
      const double increase = judged.loss_on(networks, shuffled) - judged.loss();
      sum += increase;
      squares += increase * increase;
    }
    const double n = static_cast<double>(times), mean = sum / n;
    const double variance = times > 1 ? std::max(0.0, (squares - n * mean * mean) / (n - 1)) : 0;
    all.push_back({features[f], mean, std::sqrt(variance)});
  }
  std::ranges::stable_sort(all, [](const Importance& a, const Importance& b) { return a.increase > b.increase; });
  return all;
}

void print_importance(const std::vector<Importance>& importance, const Judged& judged) {
  if (importance.empty()) return;
  fmt::print("\n{:<24} {:>16} {:>12}\n", "feature shuffled", judged.loss_name() + " rises by", "+-");
  for (const Importance& i : importance) fmt::print("{:<24} {:>16.5f} {:>12.5f}\n", i.feature, i.increase, i.deviation);
}

std::string importance_html(const std::vector<Importance>& importance, const Judged& judged) {
  if (importance.empty()) return "";
  constexpr std::size_t most_bars = 40;
  app::plot::BarChart chart{"Importance of features", judged.loss_name() + " rises by", {}, 620};
  for (std::size_t i = 0; i < std::min(most_bars, importance.size()); ++i)
    chart.bars.push_back({importance[i].feature, std::max(0.0, importance[i].increase),
                          fmt::format("{:.4f} +- {:.4f}", importance[i].increase, importance[i].deviation)});
  return "<h2>Importance of features</h2><div class='card'>" + app::plot::svg(chart) +
         "<p class='note'>How much the loss rises if a feature's values are shuffled among the rows. Features that say "
         "the same share their importance.</p></div>";
}

}  // namespace keelson::tabular
