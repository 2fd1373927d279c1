#include "apps/common/target_metrics.hpp"

#include "engine/base/error.hpp"

namespace keelson::app {

void MeanBaseline::set_mean(std::vector<double> mean) {
  const auto targets = metric_->targets().size();  // 0: the targets have no names
  if (targets > 0 && !mean.empty() && mean.size() != targets)
    refuse("the checkpoint has the sums of {} training targets (target_sum), expected {}: use another checkpoint",
           mean.size(), targets);
  mean_ = std::move(mean);
}

double MeanBaseline::measure(std::size_t target, double, double truth) const {
  return mean_.empty() ? 0 : metric_->measure(target, mean_.at(target), truth);
}

std::vector<double> MeanBaseline::values() const {
  return mean_.empty() ? std::vector<double>() : TargetMetric::values();
}

TargetMetrics::TargetMetrics(std::shared_ptr<TargetMetric> by, std::int64_t plotted)
    : metric(std::move(by)),
      baseline(std::make_shared<MeanBaseline>(metric)),
      absolute(std::make_shared<MeanAbsoluteError>(metric->targets())),
      predictions(std::make_shared<Predictions>(plotted)) {}

}  // namespace keelson::app
