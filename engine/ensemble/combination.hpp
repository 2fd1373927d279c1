#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/ensemble/class_points.hpp"
#include "engine/ensemble/class_scores.hpp"
#include "engine/ensemble/value_scores.hpp"
#include "engine/train/metrics/target_metric.hpp"

namespace keelson::ensemble {

/// What the members predict for a batch. The arrays are in host memory and valid during Combination::update().
struct MemberPredictions {
  std::int64_t count = 0;                 ///< samples of this rank in the batch
  const std::int64_t* indices = nullptr;  ///< (count): indices of the samples in the data set
  std::vector<const float*> members;      ///< each (count, MetricSetup::prediction), f32, plain
  std::vector<const float*> variances;    ///< the same, of the members' distributions; empty: they predict none
  const void* targets = nullptr;          ///< (count, MetricSetup::target), as Dataset::read writes them
};

/// Averages what the members predict, and scores it, batch by batch as a Metric does:
///
///   reset(setup, members);  update(batch) ...;  reduce(communicator);  the scores
class Combination {
 public:
  virtual ~Combination() = default;
  /// Begins an evaluation. Throws InputError for predictions or targets of a shape or type that it does not take.
  virtual void reset(const MetricSetup& setup, std::int64_t members) = 0;
  /// Adds a batch of this rank. Returns what the ensemble predicts, as a member would: (count, prediction), valid until
  /// the next call.
  virtual const float* update(const MemberPredictions& batch) = 0;
  /// Adds up the sums of all ranks, on all ranks. Called once, after the last update(). Collective.
  virtual void reduce(Communicator* communicator) = 0;
};

/// For networks that predict numbers: the mean of the members' predictions, and a ValueEnsemble for each target. The
/// variance of a prediction of several rows is the mean of the rows' variances.
class ValueCombination final : public Combination {
 public:
  /// `scales`: of each target, as ValueEnsemble has it; empty: 1.
  explicit ValueCombination(std::vector<double> scales = {}) : scales_(std::move(scales)) {}
  void reset(const MetricSetup& setup, std::int64_t members) override;
  const float* update(const MemberPredictions& batch) override;
  void reduce(Communicator* communicator) override;
  const std::vector<ValueEnsemble>& targets() const { return targets_; }  ///< scores of each target, in its units
  /// ValueEnsemble::variance_scale() of each target.
  std::vector<double> scales() const;

 private:
  std::vector<double> scales_;
  TargetRows rows_;
  std::int64_t per_sample_ = 0;
  std::vector<ValueEnsemble> targets_;
  std::vector<float> mean_;
};

/// For networks that predict classes, of samples, of their rows (words), or of pixels: the mean of the members'
/// probabilities, which are the softmax of their logits. What the ensemble predicts for other metrics are the
/// logarithms of the mean, before the temperature. Rows and pixels of the class -1 do not count. ClassPoints has the
/// shapes.
class ClassCombination final : public Combination {
 public:
  /// `temperature`: as ClassEnsemble has it. `kept`: the most probabilities to keep for fit(), of all ranks together;
  /// 0: none are kept.
  explicit ClassCombination(double temperature = 1, std::int64_t kept = 0) : temperature_(temperature), most_(kept) {}
  void reset(const MetricSetup& setup, std::int64_t members) override;
  /// Throws InputError, naming the sample, for a true class that the network does not have.
  const float* update(const MemberPredictions& batch) override;
  void reduce(Communicator* communicator) override;
  const ClassEnsemble& scores() const { return *scores_; }  ///< after reset()
  /// fit_temperature() of the kept predictions: of every k-th row or pixel, with the smallest k that `kept` allows. The
  /// same on all ranks, whatever their number. After reduce(). Throws Error if none are kept.
  double fit() const;

 private:
  double temperature_;
  std::int64_t most_, every_ = 0;
  ClassPoints points_;
  std::optional<ClassEnsemble> scores_;
  std::vector<double> probabilities_;
  std::vector<float> logs_;
  std::vector<float> kept_;  ///< per point: its place as two floats, its class, the probabilities
};

}  // namespace keelson::ensemble
