#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/common/ensemble_evaluation.hpp"
#include "apps/cosmoflow/task.hpp"

namespace keelson::cosmoflow {

/// How well the predictions of an ensemble, or of one network that predicts variances, are as distributions.
class Judgement {
 public:
  /// Loads the networks and evaluates all samples of `data`. With --calibrate, first fits scales of the variances on
  /// the validation data of the run with these options. Throws InputError, also for networks of which some predict
  /// variances and some do not. Collective.
  Judgement(const app::EvaluationOptions& o, app::MemberNetworks& networks, const RunOptions& run,
            const UniverseDataset& data, Communicator& world);

  const TargetMetric& metric() const { return *metric_; }              ///< of the mean of the predictions
  const std::vector<app::ScoreRow>& rows() const { return rows_; }     ///< scores, as means over the targets
  const std::string& calibrated_on() const { return calibrated_on_; }  ///< data of the scales; empty: none
  void print_targets() const;                                          ///< a table with a line for each target
  nlohmann::ordered_json targets_to_json() const;                      ///< an object for each target
  /// Writes --report, with `html` at its end. Called by the first rank.
  void write_report(const app::EvaluationOptions& o, const std::string& title, const std::string& subtitle,
                    const std::string& html = "") const;

 private:
  void calibrate(const app::EvaluationOptions& o, app::MemberNetworks& networks, const RunOptions& run,
                 Communicator& world);
  void fill_rows(const std::vector<ensemble::EnsembleEvaluator::Metrics>& of_members);

  app::MemberNetworks::Outputs outputs_;
  std::vector<double> scales_;  ///< of the variances of the targets; empty: 1
  std::string calibrated_on_;
  std::shared_ptr<TargetMetric> metric_;
  std::vector<ensemble::ValueEnsemble> targets_;
  std::vector<app::ScoreRow> rows_;
};

}  // namespace keelson::cosmoflow
