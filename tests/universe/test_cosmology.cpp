#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "apps/cosmoflow/universe/cosmology.hpp"
#include "engine/base/error.hpp"

namespace keelson::universe {
namespace {

CosmologyParameters parameters(double omega_m, double omega_b, double h, double n_s = 0.96, double sigma_8 = 0.8) {
  CosmologyParameters p;
  p.omega_m = omega_m;
  p.omega_b = omega_b;
  p.h = h;
  p.n_s = n_s;
  p.sigma_8 = sigma_8;
  return p;
}

struct TransferCase {
  double omega_m, omega_b, h;
  double sound_horizon, drag_redshift, equality_redshift;
  double t[7];  // at kWaveNumbers
};
constexpr double kWaveNumbers[7] = {1e-3, 0.01, 0.05, 0.1, 0.2, 1, 10};  // h/Mpc

// From a separate Python evaluation of the formulas printed in Eisenstein & Hu (1998), eqs. 2 to 24, in double
// precision.
constexpr TransferCase kTransfer[] = {
    {0.3,
     0.049,
     0.7,
     148.415027291742,
     1024.55063373384,
     3539.38376609137,
     {0.992254101150396, 0.779947320070318, 0.269069581141827, 0.129377927559981, 0.0544412574012178,
      0.00462554843652761, 8.85472409955243e-05}},
    {0.2,
     0.05,
     0.5,
     203.341299242512,
     977.848756061095,
     1203.87202928278,
     {0.9726132657015, 0.589499108349889, 0.108343485130072, 0.0437672799618494, 0.0169755941326759,
      0.00121815996336874, 2.08459307468426e-05}},
    {0.1,
     0.049,
     0.9,
     157.482277932455,
     1043.14263546137,
     1950.2726874381,
     {0.967416612696117, 0.53603645774077, 0.0730435070581843, 0.0263933446590344, 0.00726957255502786,
      0.000500470708367765, 8.14826906218011e-06}},
    {0.5,
     0.045,
     0.63,
     141.779131771943,
     1012.72671103932,
     4778.16808422335,
     {0.996315477464123, 0.859653306621196, 0.410668320682424, 0.231455195884952, 0.104590154086259, 0.0103952064735878,
      0.000216686789063961}},
};

TEST(TransferFunction, AgreesWithTheFormulasEvaluatedElsewhere) {
  for (const TransferCase& c : kTransfer) {
    const TransferFunction t(parameters(c.omega_m, c.omega_b, c.h));
    EXPECT_NEAR(t.sound_horizon() / c.sound_horizon, 1, 1e-11);
    EXPECT_NEAR(t.drag_redshift() / c.drag_redshift, 1, 1e-11);
    EXPECT_NEAR(t.equality_redshift() / c.equality_redshift, 1, 1e-11);
    for (int i = 0; i < 7; ++i)
      EXPECT_NEAR(t(kWaveNumbers[i]) / c.t[i], 1, 1e-10) << c.omega_m << " k " << kWaveNumbers[i];
  }
}

// Eq. 26 of the paper is another fit to the same sound horizon, good to about 2 % for Omega_b h^2 > 0.0125, .025 <
// Omega_0 h^2 < .5.
TEST(TransferFunction, SoundHorizonAgreesWithThePapersShortFit) {
  for (const double omega_m : {0.2, 0.3, 0.5}) {
    const double h = 0.7, m = omega_m * h * h, b = 0.049 * h * h;
    const double fit = 44.5 * std::log(9.83 / m) / std::sqrt(1 + 10 * std::pow(b, 0.75));
    EXPECT_NEAR(TransferFunction(parameters(omega_m, 0.049, h)).sound_horizon() / fit, 1, 0.02);
  }
}

TEST(TransferFunction, IsOneOnLargeScalesAndHasAcousticOscillations) {
  const TransferFunction t(parameters(0.3, 0.049, 0.7));
  EXPECT_EQ(t(0), 1);
  EXPECT_NEAR(t(1e-6), 1, 1e-4);
  // Against a line in the logarithm the acoustic peaks bend T up and down: count the changes of curvature in 0.03 < k <
  // 0.3.
  const auto curvature = [&](double k) {
    const double e = 1.05;
    return std::log(t(k * e)) + std::log(t(k / e)) - 2 * std::log(t(k));
  };
  int changes = 0;
  for (double k = 0.03; k < 0.3; k *= 1.02) changes += (curvature(k) > 0) != (curvature(k * 1.02) > 0);
  EXPECT_GE(changes, 4);
}

TEST(Cosmology, IsNormalisedToSigma8) {
  for (const double sigma_8 : {0.6, 0.8, 1.0}) {
    for (const double n_s : {0.8, 1.2}) {
      const Cosmology c(parameters(0.3, 0.049, 0.7, n_s, sigma_8));
      // Another rule (midpoint in k, not in ln k) with other bounds.
      double sum = 0;
      const double step = 2e-4;
      for (double k = step / 2; k < 12; k += step) {
        const double x = 8 * k, w = 3 * (std::sin(x) - x * std::cos(x)) / (x * x * x);
        sum += c.linear_power(k) * k * k * w * w * step;
      }
      EXPECT_NEAR(std::sqrt(sum / (2 * std::numbers::pi * std::numbers::pi)), sigma_8, 1e-4 * sigma_8);
      EXPECT_NEAR(c.sigma(8), sigma_8, 1e-12);
      EXPECT_LT(c.sigma(16), c.sigma(8));
    }
  }
}

// The same Python script, normalised by a trapezoidal rule on 200001 points of ln k from 1e-6 to 1e3.
TEST(Cosmology, LinearPowerAgreesWithAnIndependentEvaluation) {
  const Cosmology a(parameters(0.3, 0.049, 0.7, 0.96, 0.8));
  EXPECT_NEAR(a.linear_power(0.01) / 21685.5479916, 1, 1e-6);
  EXPECT_NEAR(a.linear_power(0.1) / 5442.02134817, 1, 1e-6);
  EXPECT_NEAR(a.linear_power(1) / 63.4404605288, 1, 1e-6);
  const Cosmology b(parameters(0.1, 0.049, 0.9, 1.2, 0.6));
  EXPECT_NEAR(b.linear_power(0.01) / 124877.286315, 1, 1e-6);
  EXPECT_NEAR(b.linear_power(0.1) / 4798.25863445, 1, 1e-6);
  EXPECT_NEAR(b.linear_power(1) / 27.3433753116, 1, 1e-6);
}

TEST(Cosmology, GrowsLikeTheScaleFactorWithoutLambda) {
  const Cosmology c(parameters(1.0, 0.05, 0.7));
  for (const double z : {0.0, 0.5, 1.5, 3.0, 99.0}) {
    EXPECT_NEAR(c.growth(z) * (1 + z), 1, 1e-10);
    EXPECT_NEAR(c.second_order_growth(z), -3.0 / 7 / ((1 + z) * (1 + z)), 1e-10);
  }
}

// Solutions of the growth equations D'' + (2 + dlnH/dlna) D' = 3/2 Omega_m(a) D and D2'' + ... = 3/2 Omega_m(a) (D2 -
// D^2), primes d/dlna, by Runge-Kutta from a = 1e-4 (40000 steps, the Python script).
TEST(Cosmology, GrowthSolvesTheEquationsOfMotion) {
  struct Row {
    double omega_m, z, d, ratio;
  };
  constexpr Row rows[] = {
      {0.1, 3, 0.4129021318, -0.42896795}, {0.1, 0.5, 0.8594451128, -0.43256085}, {0.1, 0, 1, -0.43545077},
      {0.3, 3, 0.3188404011, -0.42867892}, {0.3, 1.5, 0.5004482371, -0.428991},   {0.3, 0, 1, -0.43227024},
      {0.5, 3, 0.2857311464, -0.42861793}, {0.5, 0.5, 0.7278189024, -0.42935721}, {0.5, 0, 1, -0.4306938}};
  for (const Row& r : rows) {
    const Cosmology c(parameters(r.omega_m, 0.049, 0.7));
    EXPECT_NEAR(c.growth(r.z) / r.d, 1, 1e-7) << r.omega_m << " " << r.z;
    EXPECT_NEAR(c.second_order_growth(r.z) / (c.growth(r.z) * c.growth(r.z)) / r.ratio, 1, 3e-4)
        << r.omega_m << " " << r.z;
  }
}

TEST(Cosmology, RefusesImpossibleUniverses) {
  EXPECT_THROW(Cosmology(parameters(0.0, 0.049, 0.7)), InputError);
  EXPECT_THROW(Cosmology(parameters(1.1, 0.049, 0.7)), InputError);
  EXPECT_THROW(Cosmology(parameters(0.04, 0.049, 0.7)), InputError);
  EXPECT_THROW(Cosmology(parameters(0.3, 0.049, -0.7)), InputError);
  EXPECT_THROW(Cosmology(parameters(0.3, 0.049, 0.7, std::nan(""))), InputError);
  EXPECT_THROW(Cosmology(parameters(0.3, 0.049, 0.7)).growth(-1), InputError);
}

}  // namespace
}  // namespace keelson::universe
