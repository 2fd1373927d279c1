#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/train/metrics/metric.hpp"

namespace keelson {

/// The area under the receiver operating characteristic: the probability that a sample of the class has a larger score
/// than one of another class, where equal scores count half (Mann and Whitney 1947, Fawcett 2006). `scores` and
/// `labels` (whether a sample is of the class) have one entry per sample. NaN if all samples have one label.
double roc_auc(std::span<const float> scores, std::span<const std::uint8_t> labels);

/// The points of the curve, (false positive rate, true positive rate), from (0, 0) to (1, 1): at most `most` of them.
std::vector<std::pair<double, double>> roc_curve(std::span<const float> scores, std::span<const std::uint8_t> labels,
                                                 std::size_t most = 200);

/// roc_auc() of networks that tell classes apart. Reads logits (1, classes) and the true class, one s32, of each
/// sample. The score of a class is its logit minus the logarithm of the sum of the others' exponentials, which orders
/// samples as the probability does. Two classes: the value is that of class 1. More: the mean over the classes that
/// occur, each against all others; values() has one for each class. Every rank keeps the scores of all samples: 4 bytes
/// for each sample and class (two classes: for each sample). The value is the same on any number of ranks.
class RocAuc final : public Metric {
 public:
  /// `classes`: their names, for reports; may be empty.
  explicit RocAuc(std::vector<std::string> classes = {}) : names_(std::move(classes)) {}
  std::string name() const override { return "ROC AUC"; }
  bool higher_is_better() const override { return true; }
  void reset(const MetricSetup& setup) override;
  void update(const MetricBatch& batch) override;
  void reduce(Communicator* communicator) override;
  double value() const override;
  std::vector<double> values() const override { return values_; }
  std::vector<std::string> value_names() const override;
  /// The curve of values()[k]. After reduce().
  std::vector<std::pair<double, double>> curve(std::size_t k) const;

 private:
  /// Of class `k`, or class 1 of two.
  std::span<const float> scores_of(std::size_t k) const;
  std::vector<std::uint8_t> labels_of(std::size_t k) const;

  std::vector<std::string> names_;
  std::string data_;
  std::int64_t classes_ = 0, samples_ = 0;
  std::size_t curves_ = 0;             ///< 1 for two classes, else one for each
  std::vector<float> scores_, truth_;  ///< (curves, samples); (samples): the true class
  std::vector<double> values_;
};

}  // namespace keelson
