#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/common/ensemble_evaluation.hpp"
#include "apps/tabular/task.hpp"

namespace keelson::tabular {

/// How well networks predict some rows.
class Judged {
 public:
  virtual ~Judged() = default;
  const std::vector<app::ScoreRow>& rows() const { return rows_; }  ///< the scores
  virtual nlohmann::ordered_json facts() const = 0;                 ///< what --json has besides the scores
  virtual void print() const = 0;                                   ///< what the console has besides the scores
  virtual std::string html() const = 0;                             ///< what the report has besides the scores
  /// The score that a feature's importance is counted in: a loss, so that larger is worse.
  virtual std::string loss_name() const = 0;
  /// This score of the same networks on other rows. Collective.
  virtual double loss_on(app::MemberNetworks& networks, const Dataset& rows) const = 0;
  virtual double loss() const = 0;  ///< on the rows that were judged

 protected:
  std::vector<app::ScoreRow> rows_;
};

/// `calibration`: rows on which a temperature, or scales of variances, are fitted; null: none. Collective.
std::unique_ptr<Judged> judge_classes(app::MemberNetworks& networks, const ScaledRows& rows,
                                      const ScaledRows* calibration);
std::unique_ptr<Judged> judge_numbers(app::MemberNetworks& networks, const ScaledRows& rows,
                                      const ScaledRows* calibration);

/// How much worse the networks predict if a feature is shuffled.
struct Importance {
  std::string feature;
  double increase = 0;   ///< of Judged::loss(): the mean over several orders
  double deviation = 0;  ///< standard deviation over the orders; 0 for one
};
/// Of all features, the most important first. `times`: orders of each feature; 0: nothing is measured. The orders
/// depend on feature and number alone. Collective.
std::vector<Importance> measure_importance(app::MemberNetworks& networks, const ScaledRows& rows, const Judged& judged,
                                           std::int64_t times);
void print_importance(const std::vector<Importance>& importance, const Judged& judged);
std::string importance_html(const std::vector<Importance>& importance, const Judged& judged);

}  // namespace keelson::tabular
