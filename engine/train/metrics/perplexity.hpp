#pragma once

#include <cmath>
#include <string>

#include "engine/base/exact_sum.hpp"
#include "engine/train/metrics/metric.hpp"

namespace keelson {

/// exp(mean loss per unit), for losses that are the negative logarithm of a probability. The sum over batches is exact.
/// The device sums the loss of a batch, so the value depends on the batch per rank by rounding.
class Perplexity final : public Metric {
 public:
  std::string name() const override { return "perplexity"; }
  /// "82.07", "121.4", "1214".
  std::string text(double value) const override {
    return value < 999.95 ? fmt::format("{:#.4g}", value) : fmt::format("{:.0f}", value);
  }
  bool reads_predictions() const override { return false; }
  std::optional<double> of_loss(double mean_loss) const override { return std::exp(mean_loss); }
  void reset(const MetricSetup& setup) override {
    loss_ = {};
    units_ = setup.units;
  }
  /// Adds the loss of the batch.
  void update(const MetricBatch& batch) override { loss_.add(batch.loss); }
  void reduce(Communicator* communicator) override { ExactSum::reduce({&loss_, 1}, communicator); }
  double value() const override { return std::exp(loss_.value() / units_); }

 private:
  ExactSum loss_;
  double units_ = 1;
};

}  // namespace keelson
