#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/train/metrics/predictions.hpp"
#include "engine/train/metrics/target_metric.hpp"

namespace keelson::app {

/// The value of a metric for a network that always predicts the mean of the training targets. A network that has learnt
/// something has a better value.
class MeanBaseline final : public TargetMetric {
 public:
  explicit MeanBaseline(std::shared_ptr<const TargetMetric> metric)
      : TargetMetric(metric->targets()), metric_(std::move(metric)) {}
  /// Sets the mean: one number per target, in the network's units. Call it before the evaluation, with the same numbers
  /// on all ranks.
  void set_mean(std::vector<double> mean);
  std::string name() const override { return "always the mean"; }
  double measure(std::size_t target, double predicted, double truth) const override;
  std::vector<double> values() const override;  ///< empty without a mean

 private:
  std::shared_ptr<const TargetMetric> metric_;
  std::vector<double> mean_;
};

/// The mean of the targets themselves.
class TargetMean final : public TargetMetric {
 public:
  std::string name() const override { return "mean of the targets"; }
  double measure(std::size_t, double, double truth) const override { return truth; }
};

/// The metrics of a network that predicts numbers: `metric`, and others that help to judge its value.
struct TargetMetrics {
  /// `plotted`: the most predictions to keep on rank 0.
  TargetMetrics(std::shared_ptr<TargetMetric> metric, std::int64_t plotted);
  /// For MetricOptions::metrics.
  std::vector<std::shared_ptr<Metric>> all() const { return {metric, baseline, absolute, predictions}; }

  std::shared_ptr<TargetMetric> metric;
  std::shared_ptr<MeanBaseline> baseline;
  std::shared_ptr<MeanAbsoluteError> absolute;
  std::shared_ptr<Predictions> predictions;
};

}  // namespace keelson::app
