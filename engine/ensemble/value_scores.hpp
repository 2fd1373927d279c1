#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/communicator.hpp"
#include "engine/base/exact_sum.hpp"
#include "engine/ensemble/histogram.hpp"

namespace keelson::ensemble {

/// Means over a data set of the scores of several members' predictions of one number, and of their mixture. Sums are
/// exact: they depend neither on the order of the predictions nor on which rank adds which.
///
/// The distribution that is judged is the normal distribution with the mean and the variance of the mixture
/// (mixture_moments()). If the members predict no variances, its variance is the epistemic part alone, which is too
/// small where the data are noisy: `scale` corrects this.
class ValueEnsemble {
 public:
  /// `members` > 0. `scale` > 0: factor on the variance of the mixture, as variance_scale() of other data gives it.
  /// `bins`: of the PIT histogram. Throws Error for other values.
  explicit ValueEnsemble(std::int64_t members, double scale = 1, int bins = 10);
  /// Adds the predictions for one sample: `means` (members), `variances` (members) or empty, and the true value.
  void add(std::span<const double> means, std::span<const double> variances, double truth);
  /// Adds up the ranks' sums, on all ranks. Call it once. `communicator` null: alone. Collective.
  void reduce(Communicator* communicator);

  std::int64_t count() const { return count_; }  ///< predictions
  /// Mean absolute error and mean squared error.
  struct Error {
    double mae = 0;  ///< mean absolute error
    double mse = 0;  ///< mean squared error
  };
  Error ensemble() const;                                ///< of the mean of the members' means
  std::vector<Error> members() const;                    ///< of each member
  double aleatoric() const { return mean(aleatoric_); }  ///< mean of the aleatoric variance
  /// Mean of the epistemic variance. MSE of the ensemble = mean MSE of the members - this, up to rounding.
  double epistemic() const { return mean(epistemic_); }
  /// Mean over samples of the standard deviation of the members' means (divisor M).
  double epistemic_deviation() const { return mean(epistemic_deviation_); }
  /// Mean over samples of the square root of the aleatoric variance.
  double aleatoric_deviation() const { return mean(aleatoric_deviation_); }
  /// gaussian_nll() of the mixture; infinite if a variance is 0.
  double nll() const;
  double crps() const { return mean(crps_); }                  ///< gaussian_crps() of the mixture
  double crps_of_members() const { return mean(of_values_); }  ///< crps_of_values() of the members' means, plain
  double fair_crps_of_members() const { return mean(fair_); }  ///< the same, fair; NaN for one member
  /// Mean NLL of each member's own normal distribution; empty if the members predict no variances.
  std::vector<double> member_nll() const;
  /// Mean gaussian_crps() of each member; without variances that of a point, its mean absolute error.
  std::vector<double> member_crps() const;
  /// Part of the true values in the central interval that the mixture gives this probability. `level`: 0.5 or 0.9. A
  /// calibrated prediction has `level`. Throws Error for another level.
  double coverage(double level) const;
  /// Histogram of the probability integral transform Phi((y - mean) / deviation): flat if the predictions are
  /// calibrated, a U if they are too sure, a hill if they are not sure enough (Dawid, JRSS A 147, 1984).
  const Histogram& pit() const { return pit_; }
  /// The factor on the variances (before `scale`) that minimises the NLL: mean of (y - mean)^2 / variance. It does for
  /// numbers what a temperature does for classes. Infinite if a variance is 0.
  double variance_scale() const { return mean(squares_) * scale_; }

 private:
  double mean(const ExactSum& sum) const { return sum.value() / static_cast<double>(count_); }
  struct Member {
    ExactSum absolute, square, nll, crps;
  };
  std::vector<ExactSum*> all_sums();

  double scale_;
  bool variances_ = false;
  std::int64_t count_ = 0, within_50_ = 0, within_90_ = 0;
  ExactSum absolute_, square_, aleatoric_, epistemic_, aleatoric_deviation_, epistemic_deviation_, nll_, squares_;
  ExactSum crps_, of_values_, fair_;
  std::vector<Member> members_;
  Histogram pit_;
};

}  // namespace keelson::ensemble
