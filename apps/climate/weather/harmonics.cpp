#include "apps/climate/weather/harmonics.hpp"

#include <algorithm>
#include <cmath>

#include "apps/climate/weather/physics.hpp"

namespace keelson::climate {
namespace {

constexpr int kLeastDegree = 3, kMostDegree = 170;

}  // namespace

Harmonics::Harmonics(int top) : top_(top), c_(static_cast<std::size_t>(top + 1) * static_cast<std::size_t>(top + 1)) {}

std::size_t Harmonics::index(int n, int m) const {
  return static_cast<std::size_t>(m) * static_cast<std::size_t>(top_ + 1) + static_cast<std::size_t>(n);
}

std::complex<double> Harmonics::operator()(int n, int m) const {
  return m >= 0 && m <= n && n <= top_ ? c_[index(n, m)] : 0;
}

double recurrence_factor(int n, int m) {
  const double n2 = square(n), m2 = square(m);
  return std::sqrt((n2 - m2) / (4 * n2 - 1));
}

int largest_degree(const Grid& grid) { return std::min({kMostDegree, grid.rows / 3, grid.columns / 2 - 2}); }

std::vector<double> kinetic_energy(int top, double speed) {
  std::vector<double> e(static_cast<std::size_t>(top) + 1);
  double sum = 0;
  for (int n = kLeastDegree; n <= top; ++n) {
    e[n] = std::exp(-std::pow(n / (0.8 * top), 8)) / (1 + std::pow(n / 6.0, 3));
    sum += e[n];
  }
  for (double& x : e) x *= speed * speed / 2 / sum;
  return e;
}

Harmonics draw_harmonics(const SnapshotKey& key, RandomStream use, int top,
                         const std::function<double(int)>& variance) {
  Harmonics h(top);
  for (int n = kLeastDegree; n <= top; ++n) {
    const double sigma = std::sqrt(variance(n));
    for (int m = 0; m <= n; ++m) {
      const auto bits = random_block(key, use, static_cast<std::uint64_t>(n) << 32 | static_cast<std::uint64_t>(m));
      const auto [cosine, sine] = normal_pair(bits[0], bits[1]);
      // sqrt(2) P (a cos + b sin) = 2 Re[(a - i b) / sqrt(2) P exp(i m lambda)]
      h.at(n, m) = m == 0 ? sigma * cosine : sigma * std::numbers::sqrt2 / 2 * std::complex(cosine, -sine);
    }
  }
  return h;
}

Harmonics linear_balance(const Harmonics& psi) {
  Harmonics phi(psi.top() + 1);
  for (int n = 1; n <= phi.top(); ++n) {
    for (int m = 0; m <= n; ++m) {
      phi.at(n, m) = 2 * kOmega *
                     ((n - 1.0) / n * recurrence_factor(n, m) * psi(n - 1, m) +
                      (n + 2.0) / (n + 1) * recurrence_factor(n + 1, m) * psi(n + 1, m));
    }
  }
  return phi;
}

}  // namespace keelson::climate
