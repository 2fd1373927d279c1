#pragma once

#include <array>
#include <complex>
#include <memory>
#include <vector>

#include "apps/climate/weather/harmonics.hpp"

namespace keelson::climate {

/// The background flow on the points of a grid, made row by row from spherical harmonics: sums over degrees for each
/// order, then one inverse Fourier transform for each field. The poles need no special case.
class Synthesis {
 public:
  /// `psi`: streamfunction of u and v. `values`: the functions whose values are computed. No degree may be above
  /// largest_degree(grid) + 1.
  static constexpr int kValues = 3, kFields = kValues + 2;
  Synthesis(const Grid& grid, const Harmonics& psi, const std::array<const Harmonics*, kValues>& values);
  ~Synthesis();

  /// Fields of one row: u = -d psi / d north and v = d psi / d east (m/s), then the values.
  using Row = std::array<std::vector<double>, kFields>;
  /// Working memory of a thread.
  struct Scratch {
    std::vector<std::complex<double>> modes;
    std::vector<double> legendre;
  };
  /// Threads may make rows at the same time, each with its own row and scratch. FFTW's plans are made with
  /// FFTW_ESTIMATE, so the same program gives the same bits in every run.
  void make(int row, Row& dst, Scratch& scratch) const;

 private:
  struct Plan;
  using Sums = std::array<std::complex<double>, kFields>;
  const Sums& coefficients(int n, int m) const;
  double factor(int n, int m) const;
  void order_zero(double mu, Scratch& scratch, Sums& sums) const;

  Grid grid_;
  int top_;
  std::vector<Sums> coefficients_;  ///< [m][n]
  std::vector<double> factors_;     ///< recurrence_factor [m][n]
  std::vector<double> zonal_;       ///< for u, by degree: factors of P_n1
  std::unique_ptr<Plan> plan_;
};

}  // namespace keelson::climate
