#pragma once

#include <string>
#include <vector>

#include "engine/train/metrics/target_metric.hpp"

namespace keelson {

/// Collects predictions and targets of an evaluation on rank 0, for example for plots. To collect them, add an object
/// of this class to EvaluatorOptions::metrics. The targets are numbers (f32), or one class (s32), whose predictions are
/// the logits (1, classes). Memory on rank 0 grows with the number of samples that are kept.
class Predictions final : public Metric {
 public:
  /// Keeps every k-th sample of the data set, with the smallest k that gives at most `most` samples; 0: all samples.
  explicit Predictions(std::int64_t most = 0) : most_(most) {}
  std::string name() const override { return "predictions"; }
  void reset(const MetricSetup& setup) override;
  /// Keeps the samples of the batch that belong to the selection.
  void update(const MetricBatch& batch) override;
  void reduce(Communicator* communicator) override;
  double value() const override { return static_cast<double>(kept_); }  ///< number of samples that are kept

  /// Predictions (samples kept, targets) in the order of the data set, in the network's units; or logits (samples kept,
  /// classes). Empty on ranks other than 0.
  const std::vector<float>& predicted() const { return predicted_; }
  /// The targets of the same samples, of the same shape and order; or their classes, (samples kept).
  const std::vector<float>& truth() const { return truth_; }
  bool of_classes() const { return classes_ > 0; }  ///< whether the targets are classes

 private:
  std::int64_t most_, every_ = 1, kept_ = 0, classes_ = 0;
  TargetRows rows_;          ///< if the targets are numbers
  std::vector<float> mine_;  ///< per sample: its place as two floats, predictions, targets
  std::vector<float> predicted_, truth_;
};

}  // namespace keelson
