#pragma once

#include <string>
#include <vector>

#include "engine/train/target_metric.hpp"

namespace keelson {

/// Collects predictions and targets of an evaluation on rank 0, e.g. for plots. Add it to EvaluatorOptions::metrics
/// where they are needed. Memory on rank 0 grows with the number of samples that are kept.
class Predictions final : public Metric {
 public:
  /// Keeps every k-th sample of the data set, with the smallest k that gives at most `most` samples; 0: all samples.
  explicit Predictions(std::int64_t most = 0) : most_(most) {}
  std::string name() const override { return "predictions"; }
  void reset(const MetricSetup& setup) override;
  void update(const MetricBatch& batch) override;
  void reduce(Communicator* communicator) override;
  double value() const override { return static_cast<double>(kept_); }  ///< samples that are kept

  /// (samples kept, targets) in the data set's order, as the network sees them; on rank 0 only.
  const std::vector<float>& predicted() const { return predicted_; }
  const std::vector<float>& truth() const { return truth_; }

 private:
  std::int64_t most_, every_ = 1, kept_ = 0;
  TargetRows rows_;
  std::vector<float> mine_;  ///< per sample: its place as two floats, predictions, targets
  std::vector<float> predicted_, truth_;
};

}  // namespace keelson
