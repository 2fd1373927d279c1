#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/base/exact_sum.hpp"
#include "engine/ensemble/histogram.hpp"

namespace keelson::ensemble {

/// Means of scores of predicted probabilities over a data set. Sums are exact: they depend neither on the order of the
/// predictions nor on which rank adds which.
class ClassScores {
 public:
  /// `bins`: of Reliability.
  explicit ClassScores(int bins = 15) : reliability_(bins) {}
  /// Adds one prediction: `probabilities` (classes), which sum to 1, and the true class, from 0.
  void add(std::span<const double> probabilities, std::int64_t truth);
  /// Adds up the ranks' sums, on all ranks. Call it once. `communicator` null: alone. Collective.
  void reduce(Communicator* communicator);

  std::int64_t count() const { return count_; }  ///< predictions
  /// Mean of -log p[truth]. A probability of 0 counts as the smallest normal f64 number.
  double nll() const { return mean(nll_); }
  /// Mean of sum_k (p_k - [k = truth])^2, between 0 and 2 (Brier, "Verification of forecasts expressed in terms of
  /// probability", Monthly Weather Review 78, 1950).
  double brier() const { return mean(brier_); }
  /// Part of the predictions whose largest probability, of equal ones the first, is that of the true class.
  double accuracy() const { return static_cast<double>(correct_) / static_cast<double>(count_); }
  const Reliability& reliability() const { return reliability_; }  ///< by confidence, with ece()

 private:
  double mean(const ExactSum& sum) const { return sum.value() / static_cast<double>(count_); }
  std::int64_t count_ = 0, correct_ = 0;
  ExactSum nll_, brier_;
  Reliability reliability_;
};

/// Scores of the mean of several members' probabilities, p = mean_m p_m, and of each member. NLL and Brier score of the
/// mean are at most the mean of the members' (both are convex in p).
class ClassEnsemble {
 public:
  /// `members` > 0. `temperature` T: the scores of the ensemble are those of p^(1/T), normalised; the members' are as
  /// they are. `bins`: of Reliability. Throws Error for other values.
  explicit ClassEnsemble(std::int64_t members, double temperature = 1, int bins = 15);
  /// Adds the predictions for one sample: `probabilities` (members, classes), and the true class.
  void add(std::span<const double> probabilities, std::int64_t truth);
  /// Adds up the ranks' sums, on all ranks. Call it once. `communicator` null: alone. Collective.
  void reduce(Communicator* communicator);
  /// The mean of the members' probabilities that add() was last called with: (classes), before the temperature.
  std::span<const double> mean() const { return mean_; }

  const ClassScores& ensemble() const { return ensemble_; }             ///< of the mean, at the temperature
  const std::vector<ClassScores>& members() const { return members_; }  ///< of each member
  /// Mean entropy of the mean probabilities: the whole uncertainty.
  double predictive_entropy() const { return per_sample(predictive_); }
  /// Mean of the members' entropies: the aleatoric part.
  double mean_entropy() const { return per_sample(within_); }
  /// predictive_entropy() - mean_entropy(): the epistemic part, the mutual information of class and member (BALD;
  /// Houlsby et al., "Bayesian active learning for classification and preference learning", arXiv 1112.5745).
  double bald() const { return predictive_entropy() - mean_entropy(); }
  /// Mean over samples and classes of the standard deviation of the members' probabilities, divisor M; 0 if all members
  /// are equal.
  double deviation() const { return per_sample(deviation_); }

 private:
  double per_sample(const ExactSum& sum) const { return sum.value() / static_cast<double>(ensemble_.count()); }
  double temperature_;
  ClassScores ensemble_;
  std::vector<ClassScores> members_;
  ExactSum predictive_, within_, deviation_;
  std::vector<double> mean_, scaled_;
};

/// Writes p^(1 / temperature), normalised, to `dst`, which may be `probabilities`. Probabilities of 0 stay 0.
void apply_temperature(std::span<const double> probabilities, double temperature, std::span<double> dst);

/// The temperature T that minimises the mean NLL of p^(1/T), normalised: for predictions that have been averaged before
/// (Rahaman and Thiery, "Uncertainty quantification and deep ensembles", NeurIPS 2021: averaging first, and scaling
/// then, keeps the ensemble calibrated). `probabilities` (samples, classes) f32, `truth` (samples). The NLL is convex
/// in 1/T, and Newton's method with bisection finds its minimum in [1/64, 64]. Throws Error for an empty sample.
double fit_temperature(std::span<const float> probabilities, std::span<const std::int32_t> truth);

}  // namespace keelson::ensemble
