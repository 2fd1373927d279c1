#include "apps/common/target_metrics.hpp"

namespace keelson::app {

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
