#include "apps/cosmoflow/universe/cosmology.hpp"

#include <cmath>
#include <numbers>

#include "engine/base/error.hpp"

namespace keelson::universe {
namespace {

double top_hat(double x) { return x < 1e-2 ? 1 - x * x / 10 : 3 * (std::sin(x) - x * std::cos(x)) / (x * x * x); }

}  // namespace

Cosmology::Cosmology(const CosmologyParameters& p) : p_(p), transfer_(p) {
  const double ratio = p.sigma_8 / sigma(8);
  amplitude_ = ratio * ratio;
  growth_today_ = unnormalised_growth(1);
}

double Cosmology::linear_power(double k) const {
  if (k <= 0) return 0;
  const double t = transfer_(k);
  return amplitude_ * std::pow(k, p_.n_s) * t * t;
}

double Cosmology::sigma(double r) const {
  // Trapezoidal rule in x = ln(k r). The integrand falls off as k^(3 + n_s) below and about k^-4 above, so the ends
  // contribute less than 1e-7, and the rule converges exponentially in between.
  constexpr int kSteps = 2400;
  const double first = std::log(1e-4), step = (std::log(2e2) - first) / kSteps;
  double sum = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const double x = std::exp(first + i * step), k = x / r, w = top_hat(x);
    sum += linear_power(k) * k * k * k * w * w;
  }
  return std::sqrt(sum * step / (2 * std::numbers::pi * std::numbers::pi));
}

double Cosmology::expansion(double z) const { return std::sqrt(p_.omega_m * std::pow(1 + z, 3) + 1 - p_.omega_m); }

double Cosmology::omega_m(double z) const {
  const double e = expansion(z);
  return p_.omega_m * std::pow(1 + z, 3) / (e * e);
}

double Cosmology::unnormalised_growth(double a) const {
  // With a' = s^2 the integrand da' / (a' E(a'))^3 becomes 2 s^4 / (Omega_m + Omega_Lambda s^6)^(3/2) ds, which is
  // smooth at 0. Composite Simpson rule.
  constexpr int kIntervals = 512;
  const double lambda = 1 - p_.omega_m, step = std::sqrt(a) / kIntervals;
  double sum = 0;
  for (int i = 1; i <= kIntervals; ++i) {
    const double s = i * step, s2 = s * s;
    const double weight = i == kIntervals ? 1 : (i % 2 ? 4 : 2);
    sum += weight * 2 * s2 * s2 / std::pow(p_.omega_m + lambda * s2 * s2 * s2, 1.5);
  }
  return 2.5 * p_.omega_m * expansion(1 / a - 1) * sum * step / 3;
}

double Cosmology::growth(double z) const {
  if (!(z > -1)) refuse("redshift {}: expected a number above -1", z);
  return unnormalised_growth(1 / (1 + z)) / growth_today_;
}

double Cosmology::second_order_growth(double z) const {
  const double d = growth(z);
  return -3.0 / 7.0 * d * d * std::pow(omega_m(z), -1.0 / 143.0);
}

}  // namespace keelson::universe
