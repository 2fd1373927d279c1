#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/base/exact_sum.hpp"

namespace keelson::ensemble {

/// Counts of numbers in [0, 1], in bins of equal width: bin k has [k / B, (k + 1) / B), the last one also 1.
class Histogram {
 public:
  /// Throws Error for less than one bin.
  explicit Histogram(int bins = 10);
  int bins() const { return static_cast<int>(counts_.size()); }  ///< number of bins
  /// The bin of a number. Numbers below 0 belong to the first bin, numbers above 1 and NaN to the last.
  int bin_of(double x) const;
  void add(double x) { ++counts_[static_cast<std::size_t>(bin_of(x))]; }  ///< counts a number
  /// Adds up the ranks' counts, on all ranks. `communicator` null: alone. Collective.
  void reduce(Communicator* communicator);
  const std::vector<std::int64_t>& counts() const { return counts_; }  ///< (bins)
  std::int64_t total() const;                                          ///< of all bins

 private:
  std::vector<std::int64_t> counts_;
};

/// How often predictions are right, by their confidence, which is the largest of the predicted probabilities.
class Reliability {
 public:
  /// `bins`: of confidence, as Histogram has them.
  explicit Reliability(int bins = 15);
  /// Adds the prediction for one sample.
  void add(double confidence, bool correct);
  /// Adds up the ranks' sums, on all ranks. Call it once. `communicator` null: alone. Collective.
  void reduce(Communicator* communicator);

  /// One bin.
  struct Bin {
    std::int64_t count = 0;               ///< predictions
    double confidence = 0, accuracy = 0;  ///< means; 0 in an empty bin
  };
  std::vector<Bin> bins() const;  ///< all bins, in the order of confidence
  /// Expected calibration error: sum_b n_b / n |accuracy_b - confidence_b| (Naeini, Cooper, Hauskrecht, AAAI 2015; Guo
  /// et al., "On calibration of modern neural networks", ICML 2017). NaN without predictions.
  double ece() const;

 private:
  Histogram counts_;
  std::vector<std::int64_t> correct_;
  std::vector<ExactSum> confidence_;
};

}  // namespace keelson::ensemble
