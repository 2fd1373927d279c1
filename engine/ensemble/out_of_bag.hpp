#pragma once

#include <cstdint>
#include <vector>

#include "engine/ensemble/combination.hpp"

namespace keelson::ensemble {

/// The loss of each training sample by those members of an ensemble that have not learned from the sample, since their
/// bags (TrainerOptions::bag) do not have it: the out-of-bag estimate of L. Breiman, "Out-of-bag estimation",
/// University of California, 1996. A large loss tells of a wrong target, or of a sample that others do not explain.
///
/// The loss of a network that predicts classes (a target of type s32) is -log of the mean of the members'
/// probabilities of the true class, as mean over the rows or pixels of the sample whose class is not -1. The loss of a
/// network that predicts numbers is the square of the mean prediction's error, as mean over the targets. Predictions
/// and targets have the shapes that ClassCombination and ValueCombination take.
class OutOfBag final : public Combination {
 public:
  /// `seeds`: of the members, from which their bags follow.
  explicit OutOfBag(std::vector<std::uint64_t> seeds) : seeds_(std::move(seeds)) {}
  /// Throws InputError for predictions and targets that no loss is known for. `setup.samples`: those of the training
  /// data, in the order that they had in the training.
  void reset(const MetricSetup& setup, std::int64_t members) override;
  /// Null: metrics of the ensemble cannot be taken.
  const float* update(const MemberPredictions& batch) override;
  void reduce(Communicator* communicator) override;

  /// Of each sample of the data set, the same on all ranks. NaN: all members have the sample, or it has no class. After
  /// reduce().
  const std::vector<double>& losses() const { return losses_; }
  /// Of each sample: how many members do not have it. After reduce().
  const std::vector<std::int64_t>& members() const { return members_; }
  /// Numbers of the samples with the largest losses, at most `most`, the largest first.
  std::vector<std::int64_t> largest(std::size_t most) const;

 private:
  std::vector<std::size_t> members_without(std::int64_t sample) const;
  double loss_of_classes(const MemberPredictions& batch, std::int64_t n, const std::vector<std::size_t>& members);
  double loss_of_numbers(const MemberPredictions& batch, std::int64_t n, const std::vector<std::size_t>& members) const;

  std::vector<std::uint64_t> seeds_;
  bool classes_ = false;
  ClassPoints points_;
  TargetRows rows_;
  std::vector<double> probabilities_;
  std::vector<double> losses_;
  std::vector<std::int64_t> members_;
};

}  // namespace keelson::ensemble
