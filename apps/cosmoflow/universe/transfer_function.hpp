#pragma once

namespace keelson::universe {

/// Background and primordial parameters of a flat Lambda-CDM universe; radiation is neglected after recombination and
/// neutrinos are massless.
struct CosmologyParameters {
  double omega_m = 0.3;    ///< matter density today (cold dark matter + baryons), in units of the critical density
  double sigma_8 = 0.8;    ///< rms linear matter fluctuation today in spheres of 8 Mpc/h
  double n_s = 0.96;       ///< slope of the primordial spectrum, P ~ k^n_s
  double h = 0.7;          ///< Hubble constant / (100 km/s/Mpc)
  double omega_b = 0.049;  ///< baryon density today; a constant, not a fraction of omega_m, as in the CAMELS suite
  double t_cmb = 2.7255;   ///< temperature of the microwave background, K
};

/// Throws InputError unless 0 < omega_b < omega_m <= 1, sigma_8 > 0, h > 0, t_cmb > 0 and all are finite.
void check(const CosmologyParameters& p);

/// Matter transfer function at z = 0 with acoustic oscillations: the full fit, equations (2) to (24), of Eisenstein &
/// Hu, "Baryonic Features in the Matter Transfer Function", ApJ 496, 605 (1998), astro-ph/9709112. T -> 1 for k -> 0.
class TransferFunction {
 public:
  /// Throws InputError as check() does.
  explicit TransferFunction(const CosmologyParameters& p);

  /// T(k) for k >= 0 in h/Mpc.
  double operator()(double k) const;

  double sound_horizon() const { return s_; }           ///< comoving sound horizon at the drag epoch, Mpc (eq. 6)
  double drag_redshift() const { return z_d_; }         ///< eq. 4
  double equality_redshift() const { return z_eq_; }    ///< eq. 2
  double equality_wavenumber() const { return k_eq_; }  ///< 1/Mpc (eq. 3)

 private:
  double pressureless(double q, double alpha, double beta) const;

  double h_, baryon_fraction_;
  double z_eq_, k_eq_, z_d_, s_, k_silk_;
  double alpha_c_, beta_c_, alpha_b_, beta_b_, beta_node_;
};

}  // namespace keelson::universe
