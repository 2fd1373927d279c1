#pragma once

#include <complex>
#include <functional>
#include <vector>

#include "apps/climate/weather/grid.hpp"
#include "apps/climate/weather/random.hpp"

namespace keelson::climate {

/// Coefficients of a function on the sphere, f = c_n0 P_n0(mu) + sum over m > 0 of 2 Re[c_nm P_nm(mu) exp(i m lambda)],
/// of degrees n up to `top` and orders m from 0 to n. mu is the sine of the latitude. The P_nm are normalised to a mean
/// square of 1 over the sphere.
class Harmonics {
 public:
  explicit Harmonics(int top);
  int top() const { return top_; }
  std::complex<double>& at(int n, int m) { return c_[index(n, m)]; }
  /// Zero outside 0 <= m <= n <= top.
  std::complex<double> operator()(int n, int m) const;

 private:
  std::size_t index(int n, int m) const;
  int top_;
  std::vector<std::complex<double>> c_;
};

/// sqrt((n^2 - m^2) / (4 n^2 - 1)): the factor e_nm in the recurrence mu P_nm = e_nm P_(n-1)m + e_(n+1)m P_(n+1)m.
double recurrence_factor(int n, int m);

/// The largest degree of the flow that the grid can show: 170 for 510 rows or more.
int largest_degree(const Grid& grid);

/// Kinetic energy (m2/s2) of degrees 0 to `top`; the sum is `speed`^2 / 2. Proportional to n^-3 beyond n = 6 (Charney,
/// J. Atmos. Sci. 28 (1971) 1087; Boer and Shepherd, 40 (1983) 164; Nastrom and Gage, 42 (1985) 950) and cut off
/// smoothly near `top`. 0 below degree 3.
std::vector<double> kinetic_energy(int top, double speed);

/// A Gaussian random function: each of the 2 n + 1 real coefficients of degree n is normal with variance variance(n).
/// A coefficient depends only on key, use, n and m, so a finer grid has the same large scales.
Harmonics draw_harmonics(const SnapshotKey& key, RandomStream use, int top, const std::function<double(int)>& variance);

/// Geopotential (m2/s2) in linear balance with a streamfunction (m2/s): laplacian Phi = div(f grad psi), exactly. The
/// result has one degree more than `psi`.
Harmonics linear_balance(const Harmonics& psi);

}  // namespace keelson::climate
