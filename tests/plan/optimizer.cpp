#include "engine/optim/adam.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/graph/init.hpp"
#include "engine/optim/schedule.hpp"
#include "engine/optim/sgd.hpp"
#include "tests/support/contexts.hpp"

namespace keelson {
namespace {

TEST(Optimizer, TheFirstGroupThatMatchesDecides) {
  Sgd o;
  o.weight_decay = 0.5f;
  o.groups = {{{"dense1/weights", "dense2/weights"}, 0.02f, 1}, {{"*/bias"}, 0, 2}, {{"dense*"}, 0.1f, 3}};
  EXPECT_FLOAT_EQ(o.update_for("dense1/weights").weight_decay, 0.02f);
  EXPECT_FLOAT_EQ(o.update_for("dense1/bias").weight_decay, 0);
  EXPECT_FLOAT_EQ(o.update_for("dense1/bias").lr_multiplier, 2);
  EXPECT_FLOAT_EQ(o.update_for("dense3/weights").lr_multiplier, 3);
  EXPECT_FLOAT_EQ(o.update_for("conv1/weights").weight_decay, 0.5f);
  AdamW decoupled;
  decoupled.weight_decay = 0.5f;
  EXPECT_FLOAT_EQ(decoupled.update_for("conv1/weights").weight_decay, 0);
  EXPECT_FLOAT_EQ(decoupled.update_for("conv1/weights").decoupled_decay, 0.5f);
}

TEST(Schedule, FollowsMlperfCosmoFlow) {
  Schedule s;
  s.kind = Schedule::Kind::steps;
  s.base = 0.004;
  s.warmup_epochs = 4;
  s.warmup_from = 0.001;
  s.steps = parse_steps("32:0.25,64:0.125");
  EXPECT_DOUBLE_EQ(s.at(0), 0.001);
  EXPECT_DOUBLE_EQ(s.at(2), 0.0025);
  EXPECT_DOUBLE_EQ(s.at(4), 0.004);
  EXPECT_DOUBLE_EQ(s.at(31.99), 0.004);
  EXPECT_DOUBLE_EQ(s.at(32), 0.001);
  EXPECT_DOUBLE_EQ(s.at(70), 0.0005);
}

TEST(Schedule, LinearAndCosineEndAtTheFinalRate) {
  Schedule s;
  s.base = 1e-3;
  s.final = 1e-4;
  s.epochs = 100;
  for (auto kind : {Schedule::Kind::linear, Schedule::Kind::cosine}) {
    s.kind = kind;
    EXPECT_DOUBLE_EQ(s.at(0), 1e-3);
    EXPECT_NEAR(s.at(50), 5.5e-4, 1e-12);
    EXPECT_NEAR(s.at(100), 1e-4, 1e-12);
    EXPECT_NEAR(s.at(150), 1e-4, 1e-12);
  }
}

/// The small model of Zaremba et al. (2014): rate 1 for 4 epochs, then half of the one before in each.
TEST(Schedule, DecaysFromEpochToEpoch) {
  Schedule s;
  s.kind = Schedule::Kind::decay;
  s.base = 1;
  s.decay_factor = 0.5;
  s.flat_epochs = 4;
  EXPECT_EQ(s.at(0), 1);
  EXPECT_EQ(s.at(3 + 46470.0 / 46471), 1) << "last step of the fourth epoch";
  EXPECT_EQ(s.at(4), 0.5);
  EXPECT_EQ(s.at(4.999), 0.5);
  EXPECT_EQ(s.at(12.5), std::pow(0.5, 9));
  EXPECT_EQ(s.to_string(), "1, x 0.5 in each epoch after the first 4");
}

TEST(Schedule, RefusesStepsThatAreNotSteps) {
  for (const char* bad : {"32", "32:", ":1", "32:0.5,", "32:0.5,16:0.2", "a:b", "32:0.5;64:0.1"})
    EXPECT_THROW(parse_steps(bad), InputError) << bad;
  EXPECT_TRUE(parse_steps("").empty());
}

TEST(Init, GlorotHasItsVarianceAndDependsOnNameAndSeedOnly) {
  const Shape shape{64, 32, 3, 3, 3};
  const auto a = initial_values(Init::glorot_uniform(), "conv/weights", shape, 1);
  EXPECT_EQ(a, initial_values(Init::glorot_uniform(), "conv/weights", shape, 1));
  EXPECT_NE(a, initial_values(Init::glorot_uniform(), "conv/weights", shape, 2));
  EXPECT_NE(a, initial_values(Init::glorot_uniform(), "conv2/weights", shape, 1));
  double sum = 0, squares = 0;
  for (float v : a) {
    sum += v;
    squares += static_cast<double>(v) * v;
  }
  const double n = static_cast<double>(a.size()), variance = 2.0 / (96 * 27);  // 2 / (fan_in + fan_out)
  EXPECT_NEAR(sum / n, 0, 4 * std::sqrt(variance / n));
  EXPECT_NEAR(squares / n, variance, 0.02 * variance);
}

TEST(Init, EachValueDependsOnItsIndexAloneForAllThreadsToo) {
  Device& device = testing::context("kokkos").device();
  for (const Init& init : {Init::fan_in_uniform(), Init::he_normal(), Init::he_truncated_normal()}) {
    const auto a = initial_values(init, "w", {3, 4999}, 1), b = initial_values(init, "w", {3, 4999}, 1, &device);
    EXPECT_EQ(a, b);
    // Each parameter has the fan-in 7, so that a shorter one is the beginning of a longer one.
    const auto begin = initial_values(init, "w", {2, 7}, 1), longer = initial_values(init, "w", {5, 7}, 1);
    EXPECT_TRUE(std::equal(begin.begin(), begin.end(), longer.begin()));
  }
}

// PyTorch counts the second dim as inputs, for transposed convolutions, too.
TEST(Init, FanInUniformIsWithinOneOverTheRootOfFanIn) {
  const auto a = initial_values(Init::fan_in_uniform(), "w", {64, 16, 3, 3}, 1);
  const double bound = 1 / std::sqrt(16.0 * 9);
  double most = 0, squares = 0;
  for (float v : a) {
    most = std::max(most, std::abs(static_cast<double>(v)));
    squares += static_cast<double>(v) * v;
  }
  EXPECT_LE(most, bound);
  EXPECT_GT(most, 0.99 * bound);
  EXPECT_NEAR(squares / static_cast<double>(a.size()), bound * bound / 3, 0.05 * bound * bound / 3);
}

TEST(Init, HeNormalHasItsVariance) {
  const auto a = initial_values(Init::he_normal(), "w", {128, 500}, 1);
  double squares = 0, fourth = 0;
  for (float v : a) {
    squares += static_cast<double>(v) * v;
    fourth += std::pow(static_cast<double>(v), 4);
  }
  const double n = static_cast<double>(a.size()), variance = squares / n;
  EXPECT_NEAR(variance, 2.0 / 500, 0.03 * 2.0 / 500);
  EXPECT_NEAR(fourth / n / (variance * variance), 3, 0.1);  // kurtosis of a normal distribution
}

TEST(Init, HeUniformIsWithinItsBoundAndHasTheVarianceOfHeNormal) {
  const auto a = initial_values(Init::he_uniform(), "w", {64, 40, 5, 5}, 1);
  const double bound = std::sqrt(6.0 / (40 * 25));
  double most = 0, squares = 0;
  for (float v : a) {
    most = std::max(most, std::abs(static_cast<double>(v)));
    squares += static_cast<double>(v) * v;
  }
  EXPECT_LE(most, bound * (1 + 1e-6));
  EXPECT_GT(most, 0.99 * bound);
  EXPECT_NEAR(squares / static_cast<double>(a.size()), 2.0 / (40 * 25), 0.03 * 2.0 / (40 * 25));
}

TEST(Init, HeTruncatedNormalIsTensorFlow1s) {
  const auto a = initial_values(Init::he_truncated_normal(), "w", {128, 500}, 1);
  const double cut = 2 * std::sqrt(2.6 / 500);
  double most = 0, squares = 0, within_one = 0;
  for (float v : a) {
    const double x = std::abs(static_cast<double>(v));
    most = std::max(most, x);
    squares += x * x;
    within_one += x < cut / 2 ? 1 : 0;
  }
  const double n = static_cast<double>(a.size());
  EXPECT_LE(most, cut * (1 + 1e-6));
  EXPECT_GT(most, 0.99 * cut);
  // A normal distribution that is cut off at 2 has the variance 0.87962566^2, and P(|x| < 1) / P(|x| < 2) within 1.
  EXPECT_NEAR(squares / n, 2.6 / 500 * 0.87962566 * 0.87962566, 0.02 * 2.0 / 500);
  EXPECT_NEAR(within_one / n, 0.6826895 / 0.9544997, 0.01);
}

}  // namespace
}  // namespace keelson
