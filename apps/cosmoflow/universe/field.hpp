#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "apps/cosmoflow/universe/cosmology.hpp"
#include "apps/cosmoflow/universe/fft.hpp"

namespace keelson::universe {

/// P(k) in (Mpc/h)^3 for k in h/Mpc.
using PowerFunction = std::function<double(double)>;

/// Draws the modes of a Gaussian random density contrast in a periodic box of `side` Mpc/h: delta(x) = sum_k delta_k
/// exp(i k.x) with <|delta_k|^2> = P(k) / side^3, delta_(-k) = conj(delta_k) exactly, and 0 at k = 0 and on the Nyquist
/// planes. A mode depends only on seed, universe and its integer wave vector, not on ranks, threads or n. So a finer
/// grid has the same large-scale structure plus smaller scales.
void draw_modes(const Fft3d& fft, double side, const PowerFunction& power, std::uint64_t seed, std::uint64_t universe,
                ModeGrid& modes);

/// dst = -grad(laplacian^-1 (-f)) along `axis` (0, 1, 2), that is i k_axis f_k / k^2: the displacement, in Mpc/h, whose
/// divergence is -f. `scratch` must have the size of `f`; `f` is kept.
void displacement(const Fft3d& fft, double side, const ModeGrid& f, int axis, ModeGrid& scratch, RealGrid& dst);

/// Source of the second-order displacement, S = sum_(i<j) (phi,ii phi,jj - phi,ij^2) with laplacian phi = delta
/// (Bouchet et al. 1995; Scoccimarro 1998, eq. D2), as modes in the normalisation of draw_modes. Products are taken on
/// the grid, without dealiasing. `work`: three grids of the size of `fft`, which are overwritten.
void second_order_source(const Fft3d& fft, const ModeGrid& delta, std::array<RealGrid, 3>& work, ModeGrid& source);

/// Particles that start on a lattice of n^3 points, moved by Lagrangian perturbation theory:
///   x(z) = q + D(z) psi1(q) + (3/7) D(z)^2 Omega_m(z)^(-1/143) psi2(q)
/// (psi2 only at second order), wrapped around the periodic box and counted.
class LagrangianParticles {
 public:
  enum class Order { kZeldovich = 1, kSecond = 2 };

  /// Holds the grids for n^3 particles: 4 bytes * n^3 * (5 at first, 9 at second order).
  LagrangianParticles(int n, Order order);

  int n() const { return fft_.n(); }
  const Fft3d& fft() const { return fft_; }

  /// Computes displacements for the density modes drawn from (seed, universe) with the linear spectrum of `cosmology`.
  void realise(const Cosmology& cosmology, double side, std::uint64_t seed, std::uint64_t universe);
  /// The same for given modes (as draw_modes leaves them, z = 0 amplitude).
  void realise(const ModeGrid& delta, double side);

  /// Displacements at D = 1 in Mpc/h, [x][y][z]; second order without its growth factor.
  const std::array<RealGrid, 3>& first_order() const { return psi1_; }
  const std::array<RealGrid, 3>& second_order() const { return psi2_; }

  /// Counts the particles per cell of a cells^3 grid at redshift z (nearest grid point), [x][y][z] with z fastest.
  /// Throws InputError unless `cells` divides n, Error if a particle moved further than most of the box.
  void count(const Cosmology& cosmology, double z, int cells, std::span<std::int32_t> counts) const;

 private:
  Fft3d fft_;
  Order order_;
  double side_ = 0;
  ModeGrid delta_, scratch_, source_;
  std::array<RealGrid, 3> psi1_, psi2_;
  float largest1_ = 0, largest2_ = 0;
};

}  // namespace keelson::universe
