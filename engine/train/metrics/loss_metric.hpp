#pragma once

#include <string>

#include "engine/base/exact_sum.hpp"
#include "engine/train/metrics/metric.hpp"

namespace keelson {

/// The mean loss per unit as a metric, to choose the best epoch by. The sum over batches is exact.
class LossMetric final : public Metric {
 public:
  std::string name() const override { return "loss"; }
  bool reads_predictions() const override { return false; }
  std::optional<double> of_loss(double mean_loss) const override { return mean_loss; }
  void reset(const MetricSetup& setup) override {
    loss_ = {};
    units_ = setup.units;
  }
  /// Adds the loss of the batch.
  void update(const MetricBatch& batch) override { loss_.add(batch.loss); }
  void reduce(Communicator* communicator) override { ExactSum::reduce({&loss_, 1}, communicator); }
  double value() const override { return loss_.value() / units_; }

 private:
  ExactSum loss_;
  double units_ = 1;
};

}  // namespace keelson
