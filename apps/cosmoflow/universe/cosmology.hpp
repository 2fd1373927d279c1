#pragma once

#include "apps/cosmoflow/universe/transfer_function.hpp"

namespace keelson::universe {

/// Linear structure growth in a flat Lambda-CDM universe, normalised to sigma_8 today.
class Cosmology {
 public:
  /// Throws InputError for impossible parameters (see check()).
  explicit Cosmology(const CosmologyParameters& p);

  const CosmologyParameters& parameters() const { return p_; }
  const TransferFunction& transfer() const { return transfer_; }

  /// Linear matter power spectrum at z = 0, A k^n_s T(k)^2 with A such that sigma(8) = sigma_8. k in h/Mpc, result in
  /// (Mpc/h)^3.
  double linear_power(double k) const;

  /// rms linear fluctuation today in spheres of radius r Mpc/h: sigma^2 = int dlnk k^3 P(k) W(kr)^2 / (2 pi^2),
  /// W(x) = 3 (sin x - x cos x) / x^3.
  double sigma(double r) const;

  /// H(z) / H_0.
  double expansion(double z) const;
  /// Matter density at z in units of the critical density at z.
  double omega_m(double z) const;

  /// Linear growth factor with D(0) = 1: the growing mode H(a) int_0^a da' / (a' H(a'))^3 (Heath 1977), exact for
  /// matter and Lambda, integrated numerically to about 1e-10.
  double growth(double z) const;

  /// Second-order growth factor of Lagrangian perturbation theory, D2 = -3/7 D^2 Omega_m(z)^(-1/143) (Bouchet et al.
  /// 1995; within 3e-4 of the exact solution for 0.1 <= Omega_m <= 1). Negative.
  double second_order_growth(double z) const;

 private:
  double unnormalised_growth(double a) const;

  CosmologyParameters p_;
  TransferFunction transfer_;
  double amplitude_ = 1, growth_today_ = 1;
};

}  // namespace keelson::universe
