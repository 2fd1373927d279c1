#include "engine/ensemble/value_scores.hpp"

#include <array>
#include <cmath>

#include "engine/base/error.hpp"
#include "engine/ensemble/scores.hpp"

namespace keelson::ensemble {

ValueEnsemble::ValueEnsemble(std::int64_t members, double scale, int bins) : scale_(scale), pit_(bins) {
  KEELSON_EXPECT(members > 0 && scale > 0);
  members_.resize(static_cast<std::size_t>(members));
}

void ValueEnsemble::add(std::span<const double> means, std::span<const double> variances, double truth) {
  KEELSON_EXPECT(means.size() == members_.size());
  variances_ = !variances.empty();
  const Moments m = mixture_moments(means, variances);
  const double error = truth - m.mean, variance = scale_ * m.variance(), deviation = std::sqrt(variance);
  ++count_;
  absolute_.add(std::abs(error));
  square_.add(error * error);
  aleatoric_.add(m.aleatoric);
  epistemic_.add(m.epistemic);
  aleatoric_deviation_.add(std::sqrt(m.aleatoric));
  epistemic_deviation_.add(std::sqrt(m.epistemic));
  nll_.add(gaussian_nll(m.mean, variance, truth));
  squares_.add(error * error / variance);
  crps_.add(gaussian_crps(m.mean, deviation, truth));
  of_values_.add(crps_of_values(means, truth, Spread::plain));
  fair_.add(crps_of_values(means, truth, Spread::fair));
  // Without any variance the distribution is a step at the mean.
  const double pit = deviation > 0 ? normal_cdf(error / deviation) : error > 0 ? 1 : error < 0 ? 0 : 0.5;
  pit_.add(pit);
  if (std::abs(2 * pit - 1) <= 0.5) ++within_50_;
  if (std::abs(2 * pit - 1) <= 0.9) ++within_90_;
  for (std::size_t i = 0; i < means.size(); ++i) {
    const double of_member = truth - means[i];
    members_[i].absolute.add(std::abs(of_member));
    members_[i].square.add(of_member * of_member);
    if (variances_) members_[i].nll.add(gaussian_nll(means[i], variances[i], truth));
    members_[i].crps.add(gaussian_crps(means[i], variances_ ? std::sqrt(variances[i]) : 0, truth));
  }
}

std::vector<ExactSum*> ValueEnsemble::all_sums() {
  std::vector<ExactSum*> all{
      &absolute_, &square_, &aleatoric_, &epistemic_, &aleatoric_deviation_, &epistemic_deviation_, &nll_,
      &squares_,  &crps_,   &of_values_, &fair_};
  for (Member& m : members_) all.insert(all.end(), {&m.absolute, &m.square, &m.nll, &m.crps});
  return all;
}

void ValueEnsemble::reduce(Communicator* communicator) {
  std::array<std::int64_t, 4> counts{count_, within_50_, within_90_, variances_ ? 1 : 0};
  if (communicator) communicator->allreduce(counts.data(), counts.size(), Reduction::sum);
  count_ = counts[0];
  within_50_ = counts[1];
  within_90_ = counts[2];
  variances_ = counts[3] > 0;
  const auto all = all_sums();
  std::vector<ExactSum> sums;
  for (const ExactSum* s : all) sums.push_back(*s);
  ExactSum::reduce(sums, communicator);
  for (std::size_t i = 0; i < all.size(); ++i) *all[i] = sums[i];
  pit_.reduce(communicator);
}

ValueEnsemble::Error ValueEnsemble::ensemble() const { return {mean(absolute_), mean(square_)}; }

std::vector<ValueEnsemble::Error> ValueEnsemble::members() const {
  std::vector<Error> all;
  for (const Member& m : members_) all.push_back({mean(m.absolute), mean(m.square)});
  return all;
}

double ValueEnsemble::nll() const { return mean(nll_); }

std::vector<double> ValueEnsemble::member_nll() const {
  std::vector<double> all;
  if (variances_)
    for (const Member& m : members_) all.push_back(mean(m.nll));
  return all;
}

std::vector<double> ValueEnsemble::member_crps() const {
  std::vector<double> all;
  for (const Member& m : members_) all.push_back(mean(m.crps));
  return all;
}

double ValueEnsemble::coverage(double level) const {
  KEELSON_EXPECT(level == 0.5 || level == 0.9);
  return static_cast<double>(level == 0.5 ? within_50_ : within_90_) / static_cast<double>(count_);
}

}  // namespace keelson::ensemble
