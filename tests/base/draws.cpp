#include "engine/base/draws.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace keelson {
namespace {

struct Moments {
  double mean = 0, variance = 0;
};

Moments moments_of(const std::function<double(Draws&)>& draw) {
  constexpr int count = 40000;
  Draws d({7, philox::stream_of("test"), 1});
  double sum = 0, squares = 0;
  for (int i = 0; i < count; ++i) {
    const double v = draw(d);
    sum += v;
    squares += v * v;
  }
  const double mean = sum / count;
  return {mean, squares / count - mean * mean};
}

TEST(Draws, DependOnTheKeyAndThePlaceAlone) {
  Draws a({1, 2, 3}), b({1, 2, 3}), c({1, 2, 4});
  const double first = a.uniform();
  EXPECT_EQ(first, b.uniform());
  EXPECT_NE(first, c.uniform());
  EXPECT_NE(first, a.uniform());
}

/// Below and above the mean at which the algorithm changes.
TEST(Draws, PoissonHasItsMeanAsVariance) {
  for (const double mean : {0.0, 0.3, 4.0, 11.9, 12.1, 80.0, 900.0}) {
    const Moments m = moments_of([&](Draws& d) { return static_cast<double>(d.poisson(mean)); });
    EXPECT_NEAR(m.mean, mean, 5 * std::sqrt(mean / 40000)) << mean;
    EXPECT_NEAR(m.variance, mean, 0.04 * mean + 1e-9) << mean;
  }
}

TEST(Draws, GammaBetaAndGumbelHaveTheirMoments) {
  for (const double shape : {0.4, 0.8, 1.0, 3.5}) {
    const Moments m = moments_of([&](Draws& d) { return d.gamma(shape); });
    EXPECT_NEAR(m.mean, shape, 5 * std::sqrt(shape / 40000)) << shape;
    EXPECT_NEAR(m.variance, shape, 0.06 * shape) << shape;
  }
  const Moments beta = moments_of([](Draws& d) { return d.beta(0.8, 1.3); });
  EXPECT_NEAR(beta.mean, 0.8 / 2.1, 0.01);
  EXPECT_NEAR(beta.variance, 0.8 * 1.3 / (2.1 * 2.1 * 3.1), 0.003);
  const Moments gumbel = moments_of([](Draws& d) { return d.gumbel(0.1); });
  EXPECT_NEAR(gumbel.mean, 0.05772, 0.003);  // Euler's constant
}

}  // namespace
}  // namespace keelson
