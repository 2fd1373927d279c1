#include "apps/cosmoflow/universe/transfer_function.hpp"

#include <cmath>
#include <numbers>

#include "engine/base/error.hpp"

namespace keelson::universe {

void check(const CosmologyParameters& p) {
  const bool good = p.omega_b > 0 && p.omega_b < p.omega_m && p.omega_m <= 1 && p.sigma_8 > 0 && p.h > 0 &&
                    p.t_cmb > 0 && std::isfinite(p.sigma_8) && std::isfinite(p.n_s) && std::isfinite(p.h) &&
                    std::isfinite(p.t_cmb);
  if (!good) {
    refuse(
        "not a flat Lambda-CDM universe: Omega_m = {}, Omega_b = {}, sigma_8 = {}, n_s = {}, h = {}, T_cmb = {} K; "
        "expected "
        "0 < Omega_b < Omega_m <= 1 and positive, finite sigma_8, h and T_cmb",
        p.omega_m, p.omega_b, p.sigma_8, p.n_s, p.h, p.t_cmb);
  }
}

// Equation numbers are the paper's; wavenumbers inside are in 1/Mpc. R uses z as eq. 5 prints it (the authors' C code
// has 1 + z, which changes T by less than 1e-3).
TransferFunction::TransferFunction(const CosmologyParameters& p) : h_(p.h), baryon_fraction_(p.omega_b / p.omega_m) {
  check(p);
  using std::log, std::pow, std::sqrt;
  const double theta = p.t_cmb / 2.7;
  const double m = p.omega_m * p.h * p.h;  // Omega_0 h^2
  const double b = p.omega_b * p.h * p.h;  // Omega_b h^2
  const double fb = baryon_fraction_, fc = 1 - fb;

  z_eq_ = 2.50e4 * m * pow(theta, -4);   // (2)
  k_eq_ = 7.46e-2 * m * pow(theta, -2);  // (3)

  const double b1 = 0.313 * pow(m, -0.419) * (1 + 0.607 * pow(m, 0.674));
  const double b2 = 0.238 * pow(m, 0.223);
  z_d_ = 1291 * pow(m, 0.251) / (1 + 0.659 * pow(m, 0.828)) * (1 + b1 * pow(b, b2));  // (4)

  const auto baryon_to_photon = [&](double z) { return 31.5 * b * pow(theta, -4) * (1000 / z); };  // (5)
  const double r_d = baryon_to_photon(z_d_), r_eq = baryon_to_photon(z_eq_);
  s_ = 2 / (3 * k_eq_) * sqrt(6 / r_eq) * log((sqrt(1 + r_d) + sqrt(r_d + r_eq)) / (1 + sqrt(r_eq)));  // (6)
  k_silk_ = 1.6 * pow(b, 0.52) * pow(m, 0.73) * (1 + pow(10.4 * m, -0.95));                            // (7)

  const double a1 = pow(46.9 * m, 0.670) * (1 + pow(32.1 * m, -0.532));
  const double a2 = pow(12.0 * m, 0.424) * (1 + pow(45.0 * m, -0.582));
  alpha_c_ = pow(a1, -fb) * pow(a2, -fb * fb * fb);  // (11)
  const double c1 = 0.944 / (1 + pow(458 * m, -0.708));
  const double c2 = pow(0.395 * m, -0.0266);
  beta_c_ = 1 / (1 + c1 * (pow(fc, c2) - 1));  // (12)

  const double y = (1 + z_eq_) / (1 + z_d_);
  const double g = y * (-6 * sqrt(1 + y) + (2 + 3 * y) * log((sqrt(1 + y) + 1) / (sqrt(1 + y) - 1)));  // (15)
  alpha_b_ = 2.07 * k_eq_ * s_ * pow(1 + r_d, -0.75) * g;                                              // (14)
  beta_node_ = 8.41 * pow(m, 0.435);                                                                   // (23)
  beta_b_ = 0.5 + fb + (3 - 2 * fb) * sqrt(17.2 * m * 17.2 * m + 1);                                   // (24)
}

double TransferFunction::pressureless(double q, double alpha, double beta) const {
  const double c = 14.2 / alpha + 386 / (1 + 69.9 * std::pow(q, 1.08));  // (20)
  const double l = std::log(std::numbers::e + 1.8 * beta * q);
  return l / (l + c * q * q);  // (19)
}

double TransferFunction::operator()(double k_h) const {
  if (k_h <= 0) return 1;
  const double k = k_h * h_;
  const double q = k / (13.41 * k_eq_);  // (10)
  const double ks = k * s_;

  const double f = 1 / (1 + std::pow(ks / 5.4, 4));                                                   // (18)
  const double cdm = f * pressureless(q, 1, beta_c_) + (1 - f) * pressureless(q, alpha_c_, beta_c_);  // (17)

  const double s_tilde = s_ / std::cbrt(1 + std::pow(beta_node_ / ks, 3));  // (22)
  const double x = k * s_tilde;
  const double j0 = x < 1e-4 ? 1 - x * x / 6 : std::sin(x) / x;
  const double baryons = (pressureless(q, 1, 1) / (1 + ks * ks / (5.2 * 5.2)) +
                          alpha_b_ / (1 + std::pow(beta_b_ / ks, 3)) * std::exp(-std::pow(k / k_silk_, 1.4))) *
                         j0;                                         // (21)
  return baryon_fraction_ * baryons + (1 - baryon_fraction_) * cdm;  // (16)
}

}  // namespace keelson::universe
