#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "apps/cosmoflow/universe/field.hpp"
#include "apps/cosmoflow/universe/power.hpp"
#include "engine/base/error.hpp"

namespace keelson::universe {
namespace {

using Order = LagrangianParticles::Order;
using std::numbers::pi;

TEST(Power, OfAPlaneWaveIsInItsShell) {
  const int n = 16;
  const double side = 50, amplitude = 0.2;
  const Fft3d fft(n);
  RealGrid delta(fft.cells());
  for (std::size_t i = 0; i < delta.size(); ++i) {
    const double z = static_cast<double>(i % n);
    delta[i] = static_cast<float>(amplitude * std::cos(2 * pi * 3 * z / n));
  }
  // |delta_k|^2 = (a/2)^2 side^3 in one of the shell's modes, nothing elsewhere.
  const auto bins = measure_power(fft, delta, side);
  ASSERT_EQ(bins.size(), 7u);
  std::int64_t modes = 0;
  for (std::size_t b = 0; b < bins.size(); ++b) {
    const double sum = bins[b].power * static_cast<double>(bins[b].modes);
    EXPECT_NEAR(sum, b == 2 ? amplitude * amplitude / 4 * side * side * side : 0, 1e-3) << b;
    EXPECT_NEAR(bins[b].k, 2 * pi / side * static_cast<double>(b + 1), 0.3 * 2 * pi / side);
    modes += bins[b].modes;
  }
  EXPECT_NEAR(static_cast<double>(modes), 4.0 / 3 * pi * 7 * 7 * 7 / 2, 100);  // half of the sphere's
  EXPECT_EQ(bins[0].modes, 9);                                                 // |f|^2 = 1, 2: 18 vectors in pairs
}

TEST(Power, OfPoissonPointsIsShotNoise) {
  const int n = 16;
  const double side = 50, points = 40000;
  const Fft3d fft(n);
  std::vector<std::int32_t> counts(fft.cells());
  std::uint64_t state = 1;
  for (int i = 0; i < static_cast<int>(points); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
    ++counts[(state >> 40) % counts.size()];
  }
  RealGrid delta;
  density_contrast(counts, delta);
  PowerOptions options;
  options.bin_width = 7;
  const double noise = side * side * side / points;
  const auto with = measure_power(fft, delta, side, options);
  ASSERT_FALSE(with.empty());
  EXPECT_NEAR(with[0].power / noise, 1, 5 / std::sqrt(static_cast<double>(with[0].modes)));
  options.particles = points;
  EXPECT_NEAR(measure_power(fft, delta, side, options)[0].power, with[0].power - noise, 1e-9 * noise);
  options.bin_width = 0;
  EXPECT_THROW(measure_power(fft, delta, side, options), InputError);
}

TEST(Power, CellWindowIsThatOfNearestGridPoint) {
  const int n = 16;
  const Fft3d fft(n);
  RealGrid delta(fft.cells());
  for (std::size_t i = 0; i < delta.size(); ++i) {
    const std::size_t x = i / (n * n);
    delta[i] = static_cast<float>(std::cos(2 * pi * 5 * static_cast<double>(x) / n));
  }
  PowerOptions options;
  const auto raw = measure_power(fft, delta, 1, options);
  options.undo_cell_window = true;
  const auto undone = measure_power(fft, delta, 1, options);
  const double x = pi * 5 / n;
  EXPECT_NEAR(raw[4].power / undone[4].power, std::pow(std::sin(x) / x, 2), 1e-5);
}

/// Sum of P and of P^2 over the modes of each shell of width 1, as measure_power forms them.
struct Expected {
  double sum = 0, sum_of_squares = 0, modes = 0;
};
std::vector<Expected> expected_shells(const Cosmology& c, int n, double side) {
  const int top = largest_frequency(n);
  std::vector<Expected> shells(static_cast<std::size_t>(top));
  for (int x = -top; x <= top; ++x) {
    for (int y = -top; y <= top; ++y) {
      for (int z = -top; z <= top; ++z) {
        const double f = std::sqrt(static_cast<double>(x * x + y * y + z * z));
        if (f < 0.5 || f > top) continue;
        const double p = c.linear_power(2 * pi / side * f);
        Expected& e = shells[static_cast<std::size_t>(f - 0.5)];
        e.sum += p / 2;  // k and -k are one mode
        e.sum_of_squares += p * p / 2;
        e.modes += 0.5;
      }
    }
  }
  return shells;
}

TEST(Power, OfGaussianFieldsIsTheInputSpectrumWithinCosmicVariance) {
  const int n = 32, fields = 40;
  for (const double side : {256.0, 1000.0}) {
    CosmologyParameters p;
    p.omega_m = 0.2;
    const Cosmology c(p);
    const Fft3d fft(n);
    ModeGrid modes(fft.modes());
    RealGrid delta(fft.cells());
    const auto expected = expected_shells(c, n, side);
    std::vector<double> measured(expected.size());
    for (int i = 0; i < fields; ++i) {
      draw_modes(fft, side, [&](double k) { return c.linear_power(k); }, 11, static_cast<std::uint64_t>(i), modes);
      fft.inverse(modes, delta);
      const auto bins = measure_power(fft, delta, side);
      ASSERT_EQ(bins.size(), expected.size());
      for (std::size_t b = 0; b < bins.size(); ++b) {
        EXPECT_EQ(static_cast<double>(bins[b].modes), expected[b].modes);
        measured[b] += bins[b].power * static_cast<double>(bins[b].modes);
      }
    }
    double chi2 = 0;
    for (std::size_t b = 0; b < expected.size(); ++b) {
      const double z = (measured[b] - fields * expected[b].sum) / std::sqrt(fields * expected[b].sum_of_squares);
      EXPECT_LT(std::abs(z), 4.5) << "shell " << b;
      chi2 += z * z;
    }
    const double shells = static_cast<double>(expected.size());
    EXPECT_NEAR(chi2, shells, 4 * std::sqrt(2 * shells)) << side;
  }
}

// The universes that are written have the spectrum that was asked for: on large scales, count power = D(z)^2 P(k).
// Compared with the linear power of the same modes, so that cosmic variance drops out; what remains are nonlinear
// evolution and shot noise.
TEST(Power, OfCountsGrowsLikeTheGrowthFactorSquared) {
  const Cosmology c({});
  const int n = 16, per_cell = 4, universes = 8;
  const double side = 256, redshifts[] = {3, 1.5, 0.5, 0};
  const Fft3d fft(n);
  std::vector<std::int32_t> counts(fft.cells());
  RealGrid delta(fft.cells());
  ModeGrid modes(fft.modes());
  PowerOptions options;
  options.undo_cell_window = true;
  for (const Order order : {Order::kZeldovich, Order::kSecond}) {
    LagrangianParticles particles(n * per_cell, order);
    double linear[2] = {}, measured[4][2] = {};
    for (std::uint64_t u = 0; u < universes; ++u) {
      draw_modes(fft, side, [&](double k) { return c.linear_power(k); }, 3, u, modes);
      fft.inverse(modes, delta);
      const auto linear_bins = measure_power(fft, delta, side);
      for (std::size_t b = 0; b < 2; ++b) linear[b] += linear_bins[b].power;
      particles.realise(c, side, 3, u);
      for (int z = 0; z < 4; ++z) {
        particles.count(c, redshifts[z], n, counts);
        density_contrast(counts, delta);
        const auto bins = measure_power(fft, delta, side, options);
        for (std::size_t b = 0; b < 2; ++b) measured[z][b] += bins[b].power;
      }
    }
    for (int z = 0; z < 4; ++z) {
      const double growth = c.growth(redshifts[z]);
      EXPECT_NEAR(measured[z][0] / linear[0] / (growth * growth), 1, 0.05) << "z " << redshifts[z];
      EXPECT_NEAR(measured[z][1] / linear[1] / (growth * growth), 1, 0.10) << "z " << redshifts[z];
    }
  }
}

}  // namespace
}  // namespace keelson::universe
