#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/train/metrics/intersection_over_union.hpp"

namespace keelson {

/// The part of the samples whose predicted class is the true class. Reads logits (1, classes) and the true class, one
/// s32, of each sample; the predicted class is that of the largest logit, of equal ones the first. For segmentation,
/// the same of pixels: logits (1, classes, pixels...) and true classes (pixels...) s32. Counts are whole numbers, so
/// the value has the same bits on any number of ranks. values(): of each class, the part of its own samples that is
/// found (recall), NaN for a class without samples.
class Accuracy final : public SegmentationMetric {
 public:
  /// `classes`: their names, for reports; may be empty.
  explicit Accuracy(std::vector<std::string> classes = {}) : SegmentationMetric(std::move(classes)) {}
  std::string name() const override { return "accuracy"; }
  double value() const override {
    std::int64_t found = 0, all = 0;
    for (std::int64_t k = 0; k < confusion().classes(); ++k) {
      found += confusion()(k, k);
      all += of_class(k);
    }
    return ratio(found, all);
  }
  std::vector<double> values() const override {
    std::vector<double> recalls;
    for (std::int64_t k = 0; k < confusion().classes(); ++k) recalls.push_back(ratio(confusion()(k, k), of_class(k)));
    return recalls;
  }

 private:
  std::int64_t of_class(std::int64_t truth) const {
    std::int64_t n = 0;
    for (std::int64_t k = 0; k < confusion().classes(); ++k) n += confusion()(truth, k);
    return n;
  }
  static double ratio(std::int64_t part, std::int64_t whole) {
    return whole == 0 ? std::nan("") : static_cast<double>(part) / static_cast<double>(whole);
  }
};

}  // namespace keelson
