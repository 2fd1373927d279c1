#include "engine/ensemble/scores.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "engine/ensemble/class_scores.hpp"
#include "engine/ensemble/value_scores.hpp"

namespace keelson::ensemble::testing {
namespace {

TEST(EnsembleScores, CrpsOfTheNormalDistribution) {
  EXPECT_NEAR(gaussian_crps(0, 1, 0), .2336949773, 1e-10);
  EXPECT_NEAR(gaussian_crps(0, 1, 1), .6024413576, 1e-10);
  EXPECT_NEAR(gaussian_crps(5, 2, 7), 2 * .6024413576, 1e-9);
  EXPECT_DOUBLE_EQ(gaussian_crps(1, 0, 3), 2);
}

TEST(EnsembleScores, CrpsOfValues) {
  const std::array values{1.0, 2.0, 4.0};
  EXPECT_NEAR(crps_of_values(values, 3, Spread::plain), .6666667, 1e-7);
  EXPECT_NEAR(crps_of_values(values, 3, Spread::fair), .3333333, 1e-7);
  EXPECT_DOUBLE_EQ(crps_of_values(std::array{1.5}, 3, Spread::plain), 1.5);
  EXPECT_TRUE(std::isnan(crps_of_values(std::array{1.5}, 3, Spread::fair)));
}

/// The score of many values that are drawn from a normal distribution tends to the score of the distribution.
TEST(EnsembleScores, CrpsOfManyValuesIsThatOfTheirDistribution) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal(1, 2);
  std::vector<double> values(4000);
  for (double& v : values) v = normal(random);
  EXPECT_NEAR(crps_of_values(values, 2.5, Spread::fair), gaussian_crps(1, 2, 2.5), 0.03);
}

TEST(EnsembleScores, MixtureOfNormalDistributions) {
  const std::array means{1.0, 2.0, 4.0}, variances{.5, .25, 1.0};
  const Moments m = mixture_moments(means, variances);
  EXPECT_NEAR(m.mean, 2.3333333, 1e-7);
  EXPECT_NEAR(m.variance(), 2.1388889, 1e-7);
  EXPECT_NEAR(m.aleatoric, 1.75 / 3, 1e-12);
  EXPECT_NEAR(gaussian_nll(m.mean, m.variance(), 3), 1.4029779, 1e-7);
  EXPECT_EQ(mixture_moments(means, {}).aleatoric, 0);
}

TEST(EnsembleScores, EqualMembersDoNotDisagree) {
  const std::vector<double> means(7, 0.1);
  const Moments m = mixture_moments(means, {});
  EXPECT_EQ(m.epistemic, 0);
  EXPECT_EQ(m.mean, 0.1);
}

TEST(EnsembleScores, ExpectedCalibrationError) {
  const std::array confidence{.95, .9, .85, .65, .62, .55, .99, .72};
  const std::array correct{1, 1, 0, 1, 0, 1, 1, 1};
  Reliability r(10);
  for (std::size_t i = 0; i < confidence.size(); ++i) r.add(confidence[i], correct[i] == 1);
  EXPECT_NEAR(r.ece(), .25125, 1e-12);
  const auto bins = r.bins();
  EXPECT_EQ(bins[9].count, 3);  // .9 belongs to the last bin
  EXPECT_EQ(bins[6].count, 2);
  EXPECT_DOUBLE_EQ(bins[6].accuracy, .5);
  EXPECT_EQ(bins[0].count, 0);
}

TEST(EnsembleScores, BinsOfAHistogram) {
  Histogram h(15);
  EXPECT_EQ(h.bin_of(0), 0);
  EXPECT_EQ(h.bin_of(1), 14);
  EXPECT_EQ(h.bin_of(3.0 / 15), 3);
  EXPECT_EQ(h.bin_of(std::nextafter(1.0, 0)), 14);
}

const std::array<double, 6> three_members{.9, .1, .2, .8, .6, .4};

TEST(EnsembleScores, Entropies) {
  ClassEnsemble e(3);
  e.add(three_members, 0);
  e.reduce(nullptr);
  EXPECT_NEAR(e.predictive_entropy(), .6842318, 1e-7);
  EXPECT_NEAR(e.mean_entropy(), .4994990, 1e-7);
  EXPECT_NEAR(e.bald(), .1847327, 1e-7);
  EXPECT_NEAR(e.mean()[0], 1.7 / 3, 1e-12);
  EXPECT_NEAR(e.ensemble().nll(), -std::log(1.7 / 3), 1e-12);
}

/// Predictions of some members for some samples.
struct RandomClasses {
  std::vector<std::vector<double>> predictions;
  std::vector<std::int64_t> truth;
  RandomClasses(int members, int classes, int samples) {
    std::mt19937 random(11);
    std::normal_distribution<float> normal(0, 2);
    for (int n = 0; n < samples; ++n) {
      auto& p = predictions.emplace_back();
      for (int m = 0; m < members; ++m) {
        std::vector<float> logits;
        for (int k = 0; k < classes; ++k) logits.push_back(normal(random));
        std::vector<double> of_member(static_cast<std::size_t>(classes));
        softmax(logits.data(), 1, of_member);
        p.insert(p.end(), of_member.begin(), of_member.end());
      }
      truth.push_back(static_cast<std::int64_t>(random() % static_cast<unsigned>(classes)));
    }
  }
};

/// NLL and Brier score are convex, so the average of probabilities has at most the average score (Jensen).
TEST(EnsembleScores, TheAverageIsNoWorseThanTheMembersOnAverage) {
  const RandomClasses data(5, 4, 200);
  ClassEnsemble e(5);
  for (std::size_t n = 0; n < data.truth.size(); ++n) e.add(data.predictions[n], data.truth[n]);
  e.reduce(nullptr);
  double nll = 0, brier = 0;
  for (const auto& m : e.members()) {
    nll += m.nll() / 5;
    brier += m.brier() / 5;
  }
  EXPECT_LT(e.ensemble().nll(), nll);
  EXPECT_LT(e.ensemble().brier(), brier);
  EXPECT_GT(e.bald(), 0);
  EXPECT_GT(e.deviation(), 0);
}

TEST(EnsembleScores, EqualMembersAreTheirAverage) {
  const RandomClasses data(1, 4, 50);
  ClassEnsemble three(3), one(1);
  for (std::size_t n = 0; n < data.truth.size(); ++n) {
    std::vector<double> copies;
    for (int m = 0; m < 3; ++m) copies.insert(copies.end(), data.predictions[n].begin(), data.predictions[n].end());
    three.add(copies, data.truth[n]);
    one.add(data.predictions[n], data.truth[n]);
  }
  EXPECT_EQ(three.deviation(), 0);
  EXPECT_NEAR(three.bald(), 0, 1e-15);
  EXPECT_NEAR(three.ensemble().nll(), one.ensemble().nll(), 1e-14);
  EXPECT_EQ(one.ensemble().nll(), one.members()[0].nll());
}

TEST(EnsembleScores, PerfectAndWorstPredictions) {
  ClassScores best, worst;
  best.add(std::array{1.0, 0.0}, 0);
  worst.add(std::array{1.0, 0.0}, 1);
  EXPECT_EQ(best.nll(), 0);
  EXPECT_EQ(best.brier(), 0);
  EXPECT_EQ(best.accuracy(), 1);
  EXPECT_EQ(worst.brier(), 2);
  EXPECT_GT(worst.nll(), 700);
  EXPECT_TRUE(std::isfinite(worst.nll()));
}

/// Two classes, always the same probabilities: the best temperature makes the probability the part that is right.
TEST(EnsembleScores, TemperatureOfConstantPredictions) {
  const double p = .99, right = .8;
  std::vector<float> probabilities;
  std::vector<std::int32_t> truth;
  for (int n = 0; n < 100; ++n) {
    probabilities.insert(probabilities.end(), {static_cast<float>(p), static_cast<float>(1 - p)});
    truth.push_back(n < 80 ? 0 : 1);
  }
  const double expected = std::log(p / (1 - p)) / std::log(right / (1 - right));
  EXPECT_NEAR(fit_temperature(probabilities, truth), expected, 1e-5 * expected);
  std::array<double, 2> scaled{};
  apply_temperature(std::array{p, 1 - p}, expected, scaled);
  EXPECT_NEAR(scaled[0], right, 1e-12);
}

TEST(EnsembleScores, NoOtherTemperatureIsBetter) {
  RandomClasses data(3, 4, 300);
  for (std::size_t n = 0; n < data.truth.size(); n += 2)  // every other class is the one that the first member predicts
    data.truth[n] =
        std::max_element(data.predictions[n].begin(), data.predictions[n].begin() + 4) - data.predictions[n].begin();
  std::vector<float> probabilities;
  std::vector<std::int32_t> truth;
  ClassEnsemble plain(3);
  for (std::size_t n = 0; n < data.truth.size(); ++n) {
    plain.add(data.predictions[n], data.truth[n]);
    for (const double p : plain.mean()) probabilities.push_back(static_cast<float>(p));
    truth.push_back(static_cast<std::int32_t>(data.truth[n]));
  }
  const double fitted = fit_temperature(probabilities, truth);
  const auto nll = [&](double temperature) {
    ClassEnsemble e(3, temperature);
    for (std::size_t n = 0; n < data.truth.size(); ++n) e.add(data.predictions[n], data.truth[n]);
    return e.ensemble().nll();
  };
  EXPECT_GT(fitted, 1);  // all members are too sure
  for (const double other : {0.5 * fitted, 1.0, .9 * fitted, 1.1 * fitted, 10 * fitted})
    EXPECT_LT(nll(fitted), nll(other));
}

TEST(EnsembleScores, TemperatureOfPredictionsThatAreAlwaysRight) {
  const std::vector<float> probabilities{.6f, .4f, .4f, .6f};
  EXPECT_DOUBLE_EQ(fit_temperature(probabilities, std::array{0, 1}), 1.0 / 64);
  EXPECT_DOUBLE_EQ(fit_temperature(probabilities, std::array{1, 0}), 64);
}

TEST(EnsembleScores, ErrorOfTheMeanIsTheMeanErrorWithoutTheSpread) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  ValueEnsemble e(4);
  for (int n = 0; n < 100; ++n) {
    std::array<double, 4> means{};
    for (double& m : means) m = normal(random);
    e.add(means, {}, normal(random));
  }
  e.reduce(nullptr);
  double mse = 0;
  for (const auto& m : e.members()) mse += m.mse / 4;
  EXPECT_NEAR(e.ensemble().mse, mse - e.epistemic(), 1e-14);
  EXPECT_EQ(e.aleatoric(), 0);
  EXPECT_TRUE(e.member_nll().empty());
  EXPECT_NEAR(e.member_crps()[2], e.members()[2].mae, 1e-15);
}

/// True values from the predicted distribution: coverage and PIT are those of a calibrated prediction.
TEST(EnsembleScores, CalibratedPredictionsOfNumbers) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  ValueEnsemble right(2), sure(2, 0.25);
  const std::array means{-1.0, 1.0}, variances{3.0, 3.0};  // the mixture has mean 0 and variance 4
  for (int n = 0; n < 20000; ++n) {
    const double y = 2 * normal(random);
    right.add(means, variances, y);
    sure.add(means, variances, y);
  }
  right.reduce(nullptr);
  EXPECT_NEAR(right.coverage(0.5), 0.5, 0.015);
  EXPECT_NEAR(right.coverage(0.9), 0.9, 0.01);
  for (const auto count : right.pit().counts()) EXPECT_NEAR(static_cast<double>(count) / 20000, 0.1, 0.01);
  EXPECT_NEAR(right.variance_scale(), 1, 0.03);
  EXPECT_DOUBLE_EQ(right.epistemic(), 1);
  EXPECT_DOUBLE_EQ(right.aleatoric(), 3);
  EXPECT_LT(sure.coverage(0.9), 0.65);
  EXPECT_NEAR(sure.variance_scale(), right.variance_scale(), 1e-9);  // of the variances as predicted
  EXPECT_GT(sure.nll(), right.nll());
}

TEST(EnsembleScores, OneMemberWithoutVariance) {
  ValueEnsemble e(1);
  e.add(std::array{1.0}, {}, 1.5);
  e.add(std::array{1.0}, {}, 1.0);
  EXPECT_TRUE(std::isinf(e.nll()));
  EXPECT_EQ(e.pit().counts()[9], 1);
  EXPECT_EQ(e.epistemic_deviation(), 0);
  EXPECT_DOUBLE_EQ(e.crps(), 0.25);
  EXPECT_DOUBLE_EQ(e.coverage(0.9), 0.5);
}

}  // namespace
}  // namespace keelson::ensemble::testing
