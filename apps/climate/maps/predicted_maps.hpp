#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/train/metrics/metric.hpp"

namespace keelson::climate {

/// Keeps the predicted classes of the first few samples of an evaluation, for drawing. Memory: one number per pixel of
/// these samples, on the rank that evaluates them and, after reduce(), on rank 0.
class PredictedMaps final : public Metric {
 public:
  /// `most`: number of samples to keep.
  explicit PredictedMaps(std::int64_t most) : most_(most) {}
  std::string name() const override { return "predicted maps"; }
  void reset(const MetricSetup& setup) override;
  void update(const MetricBatch& batch) override;
  void reduce(Communicator* communicator) override;
  double value() const override { return static_cast<double>(samples_); }

  /// The class of every pixel of the samples 0, 1, ... Filled on rank 0, empty elsewhere.
  const std::vector<std::vector<std::int32_t>>& maps() const { return maps_; }

 private:
  std::int64_t most_, samples_ = 0, pixels_ = 0, classes_ = 0;
  std::vector<float> kept_;  ///< for each sample: its index, then its classes
  std::vector<std::vector<std::int32_t>> maps_;
};

}  // namespace keelson::climate
