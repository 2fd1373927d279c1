#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/base/exact_sum.hpp"
#include "engine/train/metrics/metric.hpp"

namespace keelson {

/// A number that a network predicts. A value y of the network is scale * y + offset in the user's units.
struct TargetUnit {
  std::string name;              ///< "Omega_m"
  double scale = 1, offset = 0;  ///< factor on the network's value; added to the product
};

/// Reads the predictions of networks whose target is a vector of numbers. A network may give several rows of
/// predictions for a sample; the prediction then is their mean.
class TargetRows {
 public:
  TargetRows() = default;  ///< no targets
  /// Throws InputError if the predictions of a sample are not rows of as many f32 numbers as there are targets.
  explicit TargetRows(const MetricSetup& setup);
  std::int64_t targets() const { return targets_; }  ///< number of targets per sample
  /// The prediction, as mean over the rows of the sample. `sample` counts within the batch.
  float predicted(const MetricBatch& batch, std::int64_t sample, std::int64_t target) const;
  /// The true value from the data set. `sample` counts within the batch.
  float truth(const MetricBatch& batch, std::int64_t sample, std::int64_t target) const;

 private:
  std::int64_t rows_ = 1, targets_ = 0;
};

/// A metric with one value per target: the mean over all samples of measure(), a number computed from each prediction
/// and its true value. value() is the mean of values(). The sums are exact, so the values depend neither on the number
/// of ranks nor on the batch.
class TargetMetric : public Metric {
 public:
  /// `targets` empty: as many targets as the data have, without names and units.
  explicit TargetMetric(std::vector<TargetUnit> targets = {}) : units_(std::move(targets)) {}
  const std::vector<TargetUnit>& targets() const { return units_; }  ///< as given to the constructor
  /// The number for one prediction. `predicted` and `truth` are in the network's units.
  virtual double measure(std::size_t target, double predicted, double truth) const = 0;

  void reset(const MetricSetup& setup) override;
  /// Adds measure() of all predictions of the batch.
  void update(const MetricBatch& batch) override;
  void reduce(Communicator* communicator) override;
  double value() const override;
  std::vector<double> values() const override;

 private:
  std::vector<TargetUnit> units_;
  TargetRows rows_;
  std::vector<ExactSum> sums_;  ///< per target, then the number of samples
};

/// Mean of |p - t|, where p is the prediction and t the true value, in the network's units.
class MeanAbsoluteError final : public TargetMetric {
 public:
  using TargetMetric::TargetMetric;
  std::string name() const override { return "MAE"; }
  double measure(std::size_t target, double predicted, double truth) const override;
};

/// Mean of |P - T| / |T| in the user's units (A. Mathuriya et al., "CosmoFlow: Using Deep Learning to Learn the
/// Universe at Scale", SC18). Needs a TargetUnit for each target.
class MeanRelativeError final : public TargetMetric {
 public:
  /// `targets`: one for each target of the data. reset() throws InputError for another number.
  explicit MeanRelativeError(std::vector<TargetUnit> targets) : TargetMetric(std::move(targets)) {}
  std::string name() const override { return "mean relative error"; }
  void reset(const MetricSetup& setup) override;
  double measure(std::size_t target, double predicted, double truth) const override;
};

}  // namespace keelson
