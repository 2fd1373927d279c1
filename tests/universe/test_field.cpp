#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "apps/cosmoflow/universe/field.hpp"
#include "apps/cosmoflow/universe/power.hpp"
#include "engine/base/error.hpp"

namespace keelson::universe {
namespace {

using Order = LagrangianParticles::Order;
using std::numbers::pi;

std::size_t mode_index(int n, int fx, int fy, int fz) {
  const auto wrap = [n](int f) { return static_cast<std::size_t>(f < 0 ? f + n : f); };
  return (wrap(fx) * static_cast<std::size_t>(n) + wrap(fy)) * static_cast<std::size_t>(n / 2 + 1) +
         static_cast<std::size_t>(fz);
}

std::size_t cell_index(int n, int x, int y, int z) {
  const auto m = static_cast<std::size_t>(n);
  return (static_cast<std::size_t>(x) * m + static_cast<std::size_t>(y)) * m + static_cast<std::size_t>(z);
}

ModeGrid modes_of(const Fft3d& fft, double side, std::uint64_t seed, std::uint64_t universe) {
  const Cosmology c({});
  ModeGrid modes(fft.modes());
  draw_modes(fft, side, [&](double k) { return c.linear_power(k); }, seed, universe, modes);
  return modes;
}

/// Modes of f(x, y, z), for coordinates as phases in [0, 2 pi).
template <class F>
ModeGrid modes_from(const Fft3d& fft, F f) {
  const int n = fft.n();
  RealGrid real(fft.cells());
  std::size_t i = 0;
  for (int x = 0; x < n; ++x) {
    for (int y = 0; y < n; ++y) {
      for (int z = 0; z < n; ++z, ++i) real[i] = static_cast<float>(f(2 * pi * x / n, 2 * pi * y / n, 2 * pi * z / n));
    }
  }
  ModeGrid modes(fft.modes());
  fft.forward(real, modes);
  for (auto& m : modes) m /= static_cast<float>(fft.cells());
  return modes;
}

TEST(GaussianField, IsExactlyHermitian) {
  for (const int n : {8, 15, 32}) {
    const Fft3d fft(n);
    const ModeGrid modes = modes_of(fft, 100, 7, 3);
    const int top = largest_frequency(n);
    for (int fx = -top; fx <= top; ++fx) {
      for (int fy = -top; fy <= top; ++fy) {
        EXPECT_EQ(modes[mode_index(n, fx, fy, 0)], std::conj(modes[mode_index(n, -fx, -fy, 0)]));
      }
    }
    EXPECT_EQ(modes[0], std::complex<float>(0, 0));
    // What a complex-to-real transform sees is then all there is: transforming back returns the same modes.
    RealGrid real(fft.cells());
    ModeGrid copy = modes, again(fft.modes());
    fft.inverse(copy, real);
    fft.forward(real, again);
    for (std::size_t m = 0; m < modes.size(); ++m) {
      EXPECT_LT(std::abs(again[m] / static_cast<float>(fft.cells()) - modes[m]), 2e-6f) << n << " " << m;
    }
  }
}

TEST(GaussianField, IsAFunctionOfSeedUniverseAndWaveVector) {
  const Fft3d coarse(16), fine(32);
  const ModeGrid a = modes_of(coarse, 100, 7, 3);
  EXPECT_EQ(a, modes_of(coarse, 100, 7, 3));
  EXPECT_NE(a, modes_of(coarse, 100, 7, 4));
  EXPECT_NE(a, modes_of(coarse, 100, 8, 3));
  const ModeGrid b = modes_of(fine, 100, 7, 3);  // the same box, twice as fine
  for (int fx = -7; fx <= 7; ++fx) {
    for (int fy = -7; fy <= 7; ++fy) {
      for (int fz = 0; fz <= 7; ++fz) EXPECT_EQ(a[mode_index(16, fx, fy, fz)], b[mode_index(32, fx, fy, fz)]);
    }
  }
}

TEST(GaussianField, NormalisedModesHaveGaussianMoments) {
  const Fft3d fft(32);
  ModeGrid modes(fft.modes());
  double count = 0, second = 0, fourth = 0, re = 0, im = 0, pseudo = 0;
  for (std::uint64_t u = 0; u < 8; ++u) {
    draw_modes(fft, 10, [](double) { return 1000.0; }, 1, u, modes);  // P = side^3: unit variance
    for (int fx = -15; fx <= 15; ++fx) {
      for (int fy = -15; fy <= 15; ++fy) {
        for (int fz = 1; fz <= 15; ++fz) {
          const std::complex<double> g = modes[mode_index(32, fx, fy, fz)];
          ++count;
          re += g.real();
          im += g.imag();
          second += std::norm(g);
          fourth += std::norm(g) * std::norm(g);
          pseudo += (g * g).real();
        }
      }
    }
  }
  const double error =
      1 / std::sqrt(count);  // |g|^2 is exponential: variances 1, 20 and 1 of |g|^2, |g|^4, Re g^2; 1/2 of Re g
  EXPECT_NEAR(re / count, 0, 5 * std::sqrt(0.5) * error);
  EXPECT_NEAR(im / count, 0, 5 * std::sqrt(0.5) * error);
  EXPECT_NEAR(second / count, 1, 5 * error);
  EXPECT_NEAR(fourth / count, 2, 5 * std::sqrt(20.0) * error);
  EXPECT_NEAR(pseudo / count, 0, 5 * error);
}

TEST(Displacement, OfAPlaneWaveIsAnalytic) {
  const int n = 32;
  const double side = 100, amplitude = 0.3, k = 2 * pi / side * 2;
  const Fft3d fft(n);
  const ModeGrid delta = modes_from(fft, [&](double, double y, double) { return amplitude * std::cos(2 * y); });
  ModeGrid scratch(fft.modes());
  RealGrid psi(fft.cells());
  displacement(fft, side, delta, 1, scratch, psi);
  std::size_t i = 0;
  for (int x = 0; x < n; ++x) {
    for (int y = 0; y < n; ++y) {
      for (int z = 0; z < n; ++z, ++i) EXPECT_NEAR(psi[i], -amplitude / k * std::sin(2 * 2 * pi * y / n), 1e-5);
    }
  }
  displacement(fft, side, delta, 0, scratch, psi);
  for (const float v : psi) EXPECT_NEAR(v, 0, 1e-5);
}

TEST(SecondOrder, VanishesForAPlaneWaveAndIsAnalyticForTwo) {
  const int n = 32;
  const double side = 100, a = 0.3, b = 0.2, k = 2 * pi / side;
  LagrangianParticles particles(n, Order::kSecond);
  particles.realise(modes_from(particles.fft(), [&](double x, double, double z) { return a * std::cos(x + 3 * z); }),
                    side);
  for (const RealGrid& g : particles.second_order()) {
    for (const float v : g) EXPECT_NEAR(v, 0, 1e-5);
  }
  // delta = a cos kx + b cos ky has S = a b cos kx cos ky and psi2 = grad S / (2 k^2).
  particles.realise(
      modes_from(particles.fft(), [&](double x, double y, double) { return a * std::cos(x) + b * std::cos(y); }), side);
  std::size_t i = 0;
  for (int x = 0; x < n; ++x) {
    for (int y = 0; y < n; ++y) {
      for (int z = 0; z < n; ++z, ++i) {
        const double px = 2 * pi * x / n, py = 2 * pi * y / n;
        ASSERT_NEAR(particles.second_order()[0][i], -a * b / (2 * k) * std::sin(px) * std::cos(py), 1e-5);
        ASSERT_NEAR(particles.second_order()[1][i], -a * b / (2 * k) * std::cos(px) * std::sin(py), 1e-5);
        ASSERT_NEAR(particles.second_order()[2][i], 0, 1e-5);
      }
    }
  }
}

// At a spherically symmetric peak psi2 points along psi1, so that collapse is faster than Zel'dovich's, as it must be.
TEST(SecondOrder, HastensTheCollapseOfAPeak) {
  const int n = 32;
  const double side = 100;
  LagrangianParticles particles(n, Order::kSecond);
  particles.realise(
      modes_from(particles.fft(),
                 [](double x, double y, double z) { return 0.3 * (std::cos(x) + std::cos(y) + std::cos(z)); }),
      side);
  // Near the peak at the origin both point inwards on either side.
  const auto at = [&](const RealGrid& g, int x, int y, int z) { return g[cell_index(n, x, y, z)]; };
  for (int axis = 0; axis < 3; ++axis) {
    const int p[3] = {axis == 0 ? 3 : 0, axis == 1 ? 3 : 0, axis == 2 ? 3 : 0};
    EXPECT_LT(at(particles.first_order()[axis], p[0], p[1], p[2]), 0);
    EXPECT_LT(at(particles.second_order()[axis], p[0], p[1], p[2]), 0);
  }
}

TEST(Particles, AreConservedAndUniformWithoutDisplacement) {
  const Cosmology c({});
  LagrangianParticles particles(32, Order::kSecond);
  std::vector<std::int32_t> counts(16 * 16 * 16);
  particles.realise(ModeGrid(particles.fft().modes()), 100);
  particles.count(c, 0, 16, counts);
  for (const int v : counts) EXPECT_EQ(v, 8);
  particles.realise(c, 100, 5, 0);
  for (const double z : {3.0, 0.0}) {
    particles.count(c, z, 16, counts);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), 32 * 32 * 32);
    EXPECT_GT(*std::max_element(counts.begin(), counts.end()), 8);
    EXPECT_GE(*std::min_element(counts.begin(), counts.end()), 0);
  }
  EXPECT_THROW(particles.count(c, 0, 12, counts), InputError);
}

TEST(Particles, AreWrappedAroundTheBoxWhereTheyShouldBe) {
  // A wave as long as the box moves the outermost particles across its faces.
  const int n = 16;
  const double side = 64, amplitude = 0.5;
  CosmologyParameters eds;
  eds.omega_m = 1;
  const Cosmology c(eds);
  LagrangianParticles particles(n, Order::kZeldovich);
  particles.realise(modes_from(particles.fft(), [&](double x, double, double) { return amplitude * std::cos(x); }),
                    side);
  std::vector<std::int32_t> counts(n * n * n), expected(counts.size());
  particles.count(c, 0, n, counts);
  for (int x = 0; x < n; ++x) {
    const double position = x + 0.25 - amplitude * n / (2 * pi) * std::sin(2 * pi * x / n);
    const int cell = (static_cast<int>(std::floor(position)) + n) % n;
    for (int i = 0; i < n * n; ++i) ++expected[cell_index(n, cell, 0, i)];
  }
  EXPECT_EQ(counts, expected);
}

TEST(Particles, MoveByBothOrdersWithTheirGrowthFactors) {
  const int n = 16;
  const double side = 64, a = 0.5, b = 0.4, z = 0.5, per_radian = side / (2 * pi);
  const Cosmology c({});
  const double d1 = c.growth(z), d2 = 3.0 / 7 * d1 * d1 * std::pow(c.omega_m(z), -1.0 / 143);
  for (const Order order : {Order::kZeldovich, Order::kSecond}) {
    LagrangianParticles particles(n, order);
    particles.realise(
        modes_from(particles.fft(), [&](double x, double y, double) { return a * std::cos(x) + b * std::cos(y); }),
        side);
    std::vector<std::int32_t> counts(n * n * n), expected(counts.size());
    particles.count(c, z, n, counts);
    const double second = order == Order::kSecond ? d2 * a * b / 2 : 0;
    for (int x = 0; x < n; ++x) {
      for (int y = 0; y < n; ++y) {
        const double px = 2 * pi * x / n, py = 2 * pi * y / n;
        const double dx = -per_radian * std::sin(px) * (d1 * a + second * std::cos(py));
        const double dy = -per_radian * std::sin(py) * (d1 * b + second * std::cos(px));
        const auto cell = [&](int i, double d) {
          return (static_cast<int>(std::floor(i + 0.25 + d * n / side)) + n) % n;
        };
        for (int i = 0; i < n; ++i) ++expected[cell_index(n, cell(x, dx), cell(y, dy), i)];
      }
    }
    EXPECT_EQ(counts, expected) << static_cast<int>(order);
  }
}

TEST(Particles, RefuseABoxSmallerThanTheirMotions) {
  const Cosmology c({});
  LagrangianParticles particles(8, Order::kZeldovich);
  particles.realise(modes_from(particles.fft(), [](double x, double, double) { return 7 * std::cos(x); }), 10);
  std::vector<std::int32_t> counts(8 * 8 * 8);
  EXPECT_THROW(particles.count(c, 0, 8, counts), Error);
}

}  // namespace
}  // namespace keelson::universe
