#pragma once

#include <array>
#include <string>
#include <vector>

#include "engine/train/metrics/metric.hpp"

namespace keelson::testing {

/// Intersection over union of two classes, "not positive" and "positive", of all numbers that a network predicts: a
/// metric as a library user writes it for segmentation, from a confusion matrix.
class IntersectionOverUnion final : public Metric {
 public:
  std::string name() const override { return "mean IoU"; }
  bool higher_is_better() const override { return true; }
  void reset(const MetricSetup& setup) override {
    per_sample_ = setup.target.shape.elements();
    cells_ = {};
  }
  void update(const MetricBatch& batch) override {
    const auto* truth = static_cast<const float*>(batch.targets);
    for (std::int64_t i = 0; i < batch.count * per_sample_; ++i)
      ++cells_[(truth[i] > 0 ? 2 : 0) + (batch.predictions[i] > 0 ? 1 : 0)];
  }
  void reduce(Communicator* communicator) override {
    if (communicator) communicator->allreduce(cells_.data(), cells_.size(), Reduction::sum);
  }
  std::vector<double> values() const override {
    const auto [nn, np, pn, pp] = cells_;
    const auto ratio = [](std::int64_t a, std::int64_t b) {
      return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
    };
    return {ratio(nn, nn + np + pn), ratio(pp, pp + np + pn)};
  }
  double value() const override { return (values()[0] + values()[1]) / 2; }

 private:
  std::int64_t per_sample_ = 0;
  std::array<std::int64_t, 4> cells_{};  ///< true and predicted: --, -+, +-, ++
};

}  // namespace keelson::testing
