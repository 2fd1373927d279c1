#include "apps/climate/weather/synthesis.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "apps/climate/weather/physics.hpp"
#include "engine/base/error.hpp"

namespace keelson::climate {
namespace {

const Grid kGrid{65, 96};

/// visit(latitude, longitude, u, v, value of the first function) for all points.
template <class Visit>
void for_each_point(const Grid& grid, const Harmonics& psi, const Harmonics& value, Visit visit) {
  const Synthesis synthesis(grid, psi, {&value, &value, &value});
  Synthesis::Row row;
  Synthesis::Scratch scratch;
  for (int r = 0; r < grid.rows; ++r) {
    synthesis.make(r, row, scratch);
    for (int c = 0; c < grid.columns; ++c) visit(grid.latitude(r), grid.longitude(c), row[0][c], row[1][c], row[2][c]);
  }
}

// P_32 with a mean square of 1 is sqrt(105/8) cos^2(phi) sin(phi).
TEST(Synthesis, OfOneHarmonicIsAnalytic) {
  Harmonics psi(3);
  psi.at(3, 2) = {0.5 * kRadius, 0.25 * kRadius};
  const double norm = std::sqrt(105.0 / 8);
  for_each_point(kGrid, psi, psi, [&](double lat, double lon, double u, double v, double value) {
    const double s = std::sin(lat), c = std::cos(lat);
    const double wave = std::cos(2 * lon) - 0.5 * std::sin(2 * lon);
    const double slope = -2 * std::sin(2 * lon) - std::cos(2 * lon);
    ASSERT_NEAR(value / kRadius, norm * c * c * s * wave, 1e-12);
    ASSERT_NEAR(u, -norm * (c * c * c - 2 * s * s * c) * wave, 1e-12);
    ASSERT_NEAR(v, norm * c * s * slope, 1e-12);
  });
}

// Wind blows across the poles where the order is 1: P_11 is sqrt(3/2) cos(phi).
TEST(Synthesis, HoldsAtThePoles) {
  Harmonics psi(3);
  psi.at(1, 1) = 0.5 * kRadius;
  psi.at(2, 0) = kRadius;
  const double a = std::sqrt(1.5), b = std::sqrt(5.0);
  for_each_point(kGrid, psi, psi, [&](double lat, double lon, double u, double v, double value) {
    const double s = std::sin(lat), c = std::cos(lat);
    ASSERT_NEAR(value / kRadius, a * c * std::cos(lon) + b * (1.5 * s * s - 0.5), 1e-12);
    ASSERT_NEAR(u, a * s * std::cos(lon) - b * 3 * s * c, 1e-12);
    ASSERT_NEAR(v, -a * std::sin(lon), 1e-12);
  });
}

// The air in solid rotation, u = U cos(phi), has Phi = -Omega a U (sin^2(phi) - 1/3) for f u a = -d Phi / d phi.
TEST(LinearBalance, OfSolidRotationIsAnalytic) {
  Harmonics psi(3);
  const double speed = 10;
  psi.at(1, 0) = -kRadius * speed / std::sqrt(3.0);
  for_each_point(kGrid, psi, linear_balance(psi), [&](double lat, double, double u, double v, double phi) {
    ASSERT_NEAR(u, speed * std::cos(lat), 1e-10);
    ASSERT_NEAR(v, 0, 1e-10);
    ASSERT_NEAR(phi, -kOmega * kRadius * speed * (square(std::sin(lat)) - 1 / 3.0), 1e-8);
  });
}

// psi = mu^2 = 1/3 + 2 / (3 sqrt(5)) P_20 has Phi = 4/3 Omega mu^3, of degrees 1 and 3.
TEST(LinearBalance, OfTheSecondDegreeIsAnalytic) {
  Harmonics psi(3);
  psi.at(2, 0) = 2 / (3 * std::sqrt(5.0));
  for_each_point(kGrid, psi, linear_balance(psi), [&](double lat, double, double, double, double phi) {
    ASSERT_NEAR(phi / kOmega, 4 / 3.0 * std::pow(std::sin(lat), 3), 1e-12);
  });
}

double mean_square(const Grid& grid, const Harmonics& h) {
  double sum = 0, area = 0;
  for_each_point(grid, h, h, [&](double lat, double, double, double, double value) {
    sum += square(value) * std::cos(lat);
    area += std::cos(lat);
  });
  return sum / area;
}

TEST(RandomHarmonics, HaveTheVarianceThatIsAskedFor) {
  double mean = 0;
  const int draws = 30;
  for (std::uint64_t sample = 0; sample < draws; ++sample) {
    const Harmonics h =
        draw_harmonics({1, sample}, RandomStream::kFlow, 20, [](int n) { return 1 / (18.0 * (2 * n + 1)); });
    mean += mean_square(kGrid, h) / draws;  // 18 degrees from 3 on
  }
  EXPECT_NEAR(mean, 1, 0.05);
}

TEST(RandomHarmonics, DoNotDependOnTheLargestDegree) {
  const auto variance = [](int n) { return 1.0 / n; };
  const Harmonics coarse = draw_harmonics({1, 2}, RandomStream::kFlow, 10, variance);
  const Harmonics fine = draw_harmonics({1, 2}, RandomStream::kFlow, 40, variance);
  for (int n = 0; n <= 10; ++n) {
    for (int m = 0; m <= n; ++m) EXPECT_EQ(coarse(n, m), fine(n, m));
  }
  EXPECT_NE(fine(5, 2), draw_harmonics({1, 3}, RandomStream::kFlow, 10, variance)(5, 2));
  EXPECT_NE(fine(5, 2), draw_harmonics({2, 2}, RandomStream::kFlow, 10, variance)(5, 2));
  EXPECT_NE(fine(5, 2), draw_harmonics({1, 2}, RandomStream::kUpperFlow, 10, variance)(5, 2));
}

TEST(KineticEnergy, FallsAsTheCubeOfTheDegree) {
  const auto e = kinetic_energy(170, 7);
  double sum = 0;
  for (const double x : e) sum += x;
  EXPECT_NEAR(sum, 7.0 * 7 / 2, 1e-9);
  EXPECT_EQ(e[2], 0);
  EXPECT_NEAR(e[80] / e[40], 1 / 8.0, 0.005);
  EXPECT_LT(e[170] / e[80], 1e-3);
}

TEST(Grid, RunsFromPoleToPole) {
  const Grid grid;
  EXPECT_NEAR(grid.latitude(0), -std::numbers::pi / 2, 1e-15);
  EXPECT_NEAR(grid.latitude(767), std::numbers::pi / 2, 1e-15);
  EXPECT_EQ(grid.longitude(0), 0);
  EXPECT_NEAR(grid.longitude(1) / kDegree, 0.3125, 1e-12);
  EXPECT_EQ(largest_degree(grid), 170);
  EXPECT_EQ(largest_degree({96, 144}), 32);
  for (const Grid bad : {Grid{63, 96}, Grid{64, 95}, Grid{16385, 96}, Grid{64, 16385}, Grid{0, 0}})
    EXPECT_THROW(check(bad), InputError);
}

}  // namespace
}  // namespace keelson::climate
