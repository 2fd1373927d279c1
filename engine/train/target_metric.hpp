#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/base/exact_sum.hpp"
#include "engine/train/metric.hpp"

namespace keelson {

/// A number that a network predicts. In the units of the user it is scale * y + offset, where y is what the network
/// sees.
struct TargetUnit {
  std::string name;  ///< "Omega_m"
  double scale = 1, offset = 0;
};

/// Reads the predictions of networks whose target is a vector of numbers. A network may give several rows of
/// predictions for a sample; the prediction then is their mean.
class TargetRows {
 public:
  TargetRows() = default;
  /// Throws InputError if the predictions of a sample are not rows of as many f32 numbers as there are targets.
  explicit TargetRows(const MetricSetup& setup);
  std::int64_t targets() const { return targets_; }
  float predicted(const MetricBatch& batch, std::int64_t sample, std::int64_t target) const;
  float truth(const MetricBatch& batch, std::int64_t sample, std::int64_t target) const;

 private:
  std::int64_t rows_ = 1, targets_ = 0;
};

/// Means over the samples, one per target, of a number that each prediction and its true value give. The sums are
/// exact, so values depend neither on the number of ranks nor on the batch. value() is the mean of values().
class TargetMetric : public Metric {
 public:
  /// `targets` empty: as many as the data have, without names.
  explicit TargetMetric(std::vector<TargetUnit> targets = {}) : units_(std::move(targets)) {}
  const std::vector<TargetUnit>& targets() const { return units_; }
  /// Of one prediction, as the network sees it.
  virtual double measure(std::size_t target, double predicted, double truth) const = 0;

  void reset(const MetricSetup& setup) override;
  void update(const MetricBatch& batch) override;
  void reduce(Communicator* communicator) override;
  double value() const override;
  std::vector<double> values() const override;

 private:
  std::vector<TargetUnit> units_;
  TargetRows rows_;
  std::vector<ExactSum> sums_;  ///< per target, then the number of samples
};

/// Mean of |p - t| as the network sees them.
class MeanAbsoluteError final : public TargetMetric {
 public:
  using TargetMetric::TargetMetric;
  std::string name() const override { return "MAE"; }
  double measure(std::size_t target, double predicted, double truth) const override;
};

/// Mean of |P - T| / |T| in the units of the user (A. Mathuriya et al., "CosmoFlow: Using Deep Learning to Learn the
/// Universe at Scale", SC18). Needs a TargetUnit for each target.
class MeanRelativeError final : public TargetMetric {
 public:
  explicit MeanRelativeError(std::vector<TargetUnit> targets) : TargetMetric(std::move(targets)) {}
  std::string name() const override { return "mean relative error"; }
  void reset(const MetricSetup& setup) override;
  double measure(std::size_t target, double predicted, double truth) const override;
};

}  // namespace keelson
