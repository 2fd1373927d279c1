#include "apps/climate/weather/synthesis.hpp"

#include <fftw3.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "apps/climate/weather/physics.hpp"
#include "engine/base/error.hpp"

namespace keelson::climate {
namespace {

std::mutex& planner() {  // FFTW's planner is not thread-safe
  static std::mutex m;
  return m;
}

fftw_complex* fftw(std::complex<double>* p) { return reinterpret_cast<fftw_complex*>(p); }

}  // namespace

struct Synthesis::Plan {
  fftw_plan inverse = nullptr;
  explicit Plan(int columns) {
    std::vector<std::complex<double>> modes(static_cast<std::size_t>(columns) / 2 + 1);
    std::vector<double> row(static_cast<std::size_t>(columns));
    const std::lock_guard lock(planner());
    inverse = fftw_plan_dft_c2r_1d(columns, fftw(modes.data()), row.data(), FFTW_ESTIMATE | FFTW_UNALIGNED);
    if (!inverse) fail("FFTW made no plan for rows of {} points", columns);
  }
  ~Plan() {
    const std::lock_guard lock(planner());
    fftw_destroy_plan(inverse);
  }
};

Synthesis::~Synthesis() = default;

Synthesis::Synthesis(const Grid& grid, const Harmonics& psi, const std::array<const Harmonics*, kValues>& values)
    : grid_(grid), top_(psi.top() + 1), plan_(std::make_unique<Plan>(grid.columns)) {
  KEELSON_EXPECT(psi.top() <= largest_degree(grid));
  for (const Harmonics* h : values) KEELSON_EXPECT(h->top() <= top_);
  const std::size_t size = static_cast<std::size_t>(top_) + 1;
  coefficients_.resize(size * size);
  factors_.resize(size * size);
  zonal_.resize(size);
  for (int m = 0; m <= top_; ++m) {
    for (int n = m; n <= top_; ++n) {
      const std::size_t i = static_cast<std::size_t>(m) * size + static_cast<std::size_t>(n);
      factors_[i] = recurrence_factor(n, m);
      Sums& c = coefficients_[i];
      // cos(phi) dP_nm / dphi = (n+1) e_nm P_(n-1)m - n e_(n+1)m P_(n+1)m, gathered by the P on the right.
      if (m > 0) {
        c[0] = -1 / kRadius *
               ((n + 2.0) * recurrence_factor(n + 1, m) * psi(n + 1, m) -
                (n - 1.0) * recurrence_factor(n, m) * psi(n - 1, m));
      }
      c[1] = std::complex<double>(0, m / kRadius) * psi(n, m);
      for (std::size_t k = 0; k < kValues; ++k) c[2 + k] = (*values[k])(n, m);
    }
  }
  // dP_n0 / dphi = sqrt(n (n+1)) P_n1
  for (int n = 1; n <= top_; ++n)
    zonal_[static_cast<std::size_t>(n)] = -1 / kRadius * std::sqrt(n * (n + 1.0)) * psi(n, 0).real();
}

const Synthesis::Sums& Synthesis::coefficients(int n, int m) const {
  return coefficients_[static_cast<std::size_t>(m) * static_cast<std::size_t>(top_ + 1) + static_cast<std::size_t>(n)];
}

double Synthesis::factor(int n, int m) const {
  return factors_[static_cast<std::size_t>(m) * static_cast<std::size_t>(top_ + 1) + static_cast<std::size_t>(n)];
}

/// The values of order 0: sums over P_n0.
void Synthesis::order_zero(double mu, Scratch& scratch, Sums& sums) const {
  auto& p = scratch.legendre;
  p[0] = 1;
  p[1] = mu / factor(1, 0);
  for (int n = 2; n <= top_; ++n) p[n] = (mu * p[n - 1] - factor(n - 1, 0) * p[n - 2]) / factor(n, 0);
  for (int n = 0; n <= top_; ++n) {
    for (int k = 0; k < kFields; ++k) sums[k] += p[n] * coefficients(n, 0)[k];
  }
}

void Synthesis::make(int row, Row& dst, Scratch& scratch) const {
  const double latitude = grid_.latitude(row), mu = std::sin(latitude), cosine = std::max(0.0, std::cos(latitude));
  const std::size_t modes = static_cast<std::size_t>(grid_.columns) / 2 + 1;
  scratch.modes.assign(modes * kFields, 0);
  scratch.legendre.resize(static_cast<std::size_t>(top_) + 2);
  Sums zero{};
  order_zero(mu, scratch, zero);

  auto& q = scratch.legendre;  // P_nm / cos(phi), which is finite at the poles
  double start = std::sqrt(1.5);
  for (int m = 1; m <= top_; ++m) {
    if (m > 1) start *= std::sqrt((2 * m + 1.0) / (2 * m)) * cosine;
    q[m] = start;
    if (m < top_) q[m + 1] = mu * start / factor(m + 1, m);
    for (int n = m + 2; n <= top_; ++n) q[n] = (mu * q[n - 1] - factor(n - 1, m) * q[n - 2]) / factor(n, m);
    Sums sums{};
    for (int n = m; n <= top_; ++n) {
      const Sums& c = coefficients(n, m);
      for (int k = 0; k < kFields; ++k) sums[k] += q[n] * c[k];
    }
    if (m == 1) {
      for (int n = 1; n <= top_; ++n) zero[0] += cosine * q[n] * zonal_[n];
    }
    for (int k = 0; k < kFields; ++k)
      scratch.modes[k * modes + static_cast<std::size_t>(m)] = k < 2 ? sums[k] : cosine * sums[k];
  }
  for (int k = 0; k < kFields; ++k) {
    scratch.modes[k * modes] = zero[k].real();
    dst[k].resize(static_cast<std::size_t>(grid_.columns));
    fftw_execute_dft_c2r(plan_->inverse, fftw(&scratch.modes[k * modes]), dst[k].data());
  }
}

}  // namespace keelson::climate
