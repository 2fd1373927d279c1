#include "apps/cosmoflow/universe/field.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "apps/cosmoflow/universe/random_streams.hpp"
#include "engine/base/error.hpp"

namespace keelson::universe {
namespace {

/// Where a lattice point stands between cell faces, in lattice spacings. A face sees displaced particles with a density
/// that oscillates with the lattice, ~ 1 + 2 r cos(2 pi offset), r = exp(-2 pi^2 variance / spacing^2): at one quarter
/// the leading term vanishes and early, small displacements are counted without bias. (At one half, the cell-centred
/// choice, large-scale power at z = 3 was measured 15 to 80 % too low for 4 Mpc/h spacing; here it is right within 2 to
/// 8 %.)
constexpr float kLatticeOffset = 0.25f;

constexpr int kMaxGrid = 1 << 15;  // keeps 3 f^2 within an int; three signed frequencies share one 64-bit counter

std::uint64_t mode_counter(int fx, int fy, int fz) {
  constexpr std::uint64_t mask = (1u << 21) - 1;
  return (static_cast<std::uint64_t>(fx) & mask) << 42 | (static_cast<std::uint64_t>(fy) & mask) << 21 |
         (static_cast<std::uint64_t>(fz) & mask);
}

/// Complex Gaussian with <|g|^2> = 1 (Box & Muller).
std::complex<float> gaussian(std::uint64_t seed, std::uint64_t universe, int fx, int fy, int fz) {
  const philox::Block bits = random_block(seed, RandomStream::kModes, universe, mode_counter(fx, fy, fz));
  const float u = (static_cast<float>(bits[0]) + 0.5f) * 0x1p-32f;  // in (0, 1]
  const float phase = 2 * std::numbers::pi_v<float> * static_cast<float>(bits[1] >> 8) * 0x1p-24f;
  const float r = std::sqrt(-std::log(u));
  return {r * std::cos(phase), r * std::sin(phase)};
}

/// Exactly one mode of each pair k, -k is drawn; the other is its conjugate.
bool is_drawn(int fx, int fy, int fz) { return fz > 0 || (fz == 0 && (fy > 0 || (fy == 0 && fx > 0))); }

/// Calls visit(index, fx, fy, fz) for every stored mode.
template <class Visit>
void for_each_mode(int n, Visit visit) {
  std::size_t index = 0;
  for (int x = 0; x < n; ++x) {
    for (int y = 0; y < n; ++y) {
      for (int z = 0; z <= n / 2; ++z, ++index) visit(index, frequency(x, n), frequency(y, n), z);
    }
  }
}

bool carries_power(int n, int fx, int fy, int fz) {
  const int largest = largest_frequency(n);
  return std::abs(fx) <= largest && std::abs(fy) <= largest && fz <= largest && (fx || fy || fz);
}

/// dst = phi,ij for laplacian phi = delta: k_i k_j / k^2 delta_k.
void second_derivative(const Fft3d& fft, const ModeGrid& delta, int i, int j, ModeGrid& scratch, RealGrid& dst) {
  for_each_mode(fft.n(), [&](std::size_t m, int fx, int fy, int fz) {
    const float f[3] = {float(fx), float(fy), float(fz)};
    const float k2 = f[0] * f[0] + f[1] * f[1] + f[2] * f[2];
    scratch[m] = carries_power(fft.n(), fx, fy, fz) ? delta[m] * (f[i] * f[j] / k2) : 0;
  });
  fft.inverse(scratch, dst);
}

float largest_magnitude(const std::array<RealGrid, 3>& grids) {
  float largest = 0;
  for (const RealGrid& g : grids) {
    for (float v : g) largest = std::max(largest, std::abs(v));
  }
  return largest;
}

}  // namespace

void draw_modes(const Fft3d& fft, double side, const PowerFunction& power, std::uint64_t seed, std::uint64_t universe,
                ModeGrid& modes) {
  const int n = fft.n(), largest = largest_frequency(n);
  KEELSON_EXPECT(modes.size() == fft.modes() && n <= kMaxGrid && side > 0);
  // |k|^2 takes few values on a lattice: tabulate the amplitude by the integer |f|^2, exactly.
  const double fundamental = 2 * std::numbers::pi / side, volume = side * side * side;
  std::vector<float> amplitude(3 * static_cast<std::size_t>(largest) * largest + 1);
  for (std::size_t s = 1; s < amplitude.size(); ++s) {
    amplitude[s] = static_cast<float>(std::sqrt(power(fundamental * std::sqrt(static_cast<double>(s))) / volume));
  }
  for_each_mode(n, [&](std::size_t m, int fx, int fy, int fz) {
    if (!carries_power(n, fx, fy, fz)) {
      modes[m] = 0;
      return;
    }
    const int squared = fx * fx + fy * fy + fz * fz;
    const float a = amplitude[static_cast<std::size_t>(squared)];
    modes[m] = is_drawn(fx, fy, fz) ? a * gaussian(seed, universe, fx, fy, fz)
                                    : a * std::conj(gaussian(seed, universe, -fx, -fy, -fz));
  });
}

void displacement(const Fft3d& fft, double side, const ModeGrid& f, int axis, ModeGrid& scratch, RealGrid& dst) {
  const float length = static_cast<float>(side / (2 * std::numbers::pi));
  for_each_mode(fft.n(), [&](std::size_t m, int fx, int fy, int fz) {
    const float k[3] = {float(fx), float(fy), float(fz)};
    const float k2 = k[0] * k[0] + k[1] * k[1] + k[2] * k[2];
    const float scale = carries_power(fft.n(), fx, fy, fz) ? length * k[axis] / k2 : 0;
    scratch[m] = {-scale * f[m].imag(), scale * f[m].real()};
  });
  fft.inverse(scratch, dst);
}

void second_order_source(const Fft3d& fft, const ModeGrid& delta, std::array<RealGrid, 3>& work, ModeGrid& source) {
  auto& [a, b, sum] = work;
  ModeGrid& scratch = source;
  second_derivative(fft, delta, 0, 0, scratch, a);
  second_derivative(fft, delta, 1, 1, scratch, b);
  for (std::size_t c = 0; c < sum.size(); ++c) {
    sum[c] = a[c] * b[c];
    a[c] += b[c];
  }
  second_derivative(fft, delta, 2, 2, scratch, b);
  for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += a[c] * b[c];
  for (const auto& [i, j] : {std::pair{0, 1}, {0, 2}, {1, 2}}) {
    second_derivative(fft, delta, i, j, scratch, a);
    for (std::size_t c = 0; c < sum.size(); ++c) sum[c] -= a[c] * a[c];
  }
  fft.forward(sum, source);
  const float scale = 1 / static_cast<float>(fft.cells());
  for (auto& m : source) m *= scale;
}

LagrangianParticles::LagrangianParticles(int n, Order order)
    : fft_(n), order_(order), delta_(fft_.modes()), scratch_(fft_.modes()) {
  for (RealGrid& g : psi1_) g.resize(fft_.cells());
  if (order_ == Order::kSecond) {
    for (RealGrid& g : psi2_) g.resize(fft_.cells());
    source_.resize(fft_.modes());
  }
}

void LagrangianParticles::realise(const Cosmology& cosmology, double side, std::uint64_t seed, std::uint64_t universe) {
  draw_modes(fft_, side, [&](double k) { return cosmology.linear_power(k); }, seed, universe, delta_);
  realise(delta_, side);
}

void LagrangianParticles::realise(const ModeGrid& delta, double side) {
  KEELSON_EXPECT(delta.size() == fft_.modes() && side > 0);
  side_ = side;
  for (int axis = 0; axis < 3; ++axis) displacement(fft_, side, delta, axis, scratch_, psi1_[axis]);
  largest1_ = largest_magnitude(psi1_);
  if (order_ == Order::kSecond) {
    second_order_source(fft_, delta, psi2_, source_);
    for (int axis = 0; axis < 3; ++axis) displacement(fft_, side, source_, axis, scratch_, psi2_[axis]);
    largest2_ = largest_magnitude(psi2_);
  }
}

void LagrangianParticles::count(const Cosmology& cosmology, double z, int cells, std::span<std::int32_t> counts) const {
  const int n = fft_.n();
  if (cells < 1 || n % cells != 0) {
    refuse("{} cells per side for {} particles per side: expected a divisor, or the lattice beats against the cells",
           cells, n);
  }
  KEELSON_EXPECT(counts.size() == static_cast<std::size_t>(cells) * cells * cells && side_ > 0);
  const bool second = order_ == Order::kSecond;
  const double d1 = cosmology.growth(z), d2 = second ? -cosmology.second_order_growth(z) : 0;
  const double reach = d1 * largest1_ + d2 * largest2_;
  if (!(reach < 0.95 * side_)) {
    refuse(
        "a particle moves {:.3g} Mpc/h at redshift {} in a box of {} Mpc/h: perturbation theory does not hold there; "
        "use a larger box",
        reach, z, side_);
  }

  // Positions in units of cells, shifted by one box so that they are positive and truncation is rounding down.
  const float per_lattice = static_cast<float>(cells) / static_cast<float>(n),
              per_mpc = static_cast<float>(cells / side_);
  const float s1 = static_cast<float>(d1) * per_mpc, s2 = static_cast<float>(d2) * per_mpc;
  const auto cell_of = [&](int lattice, float moved) {
    int i = static_cast<int>((static_cast<float>(lattice) + kLatticeOffset) * per_lattice + moved +
                             static_cast<float>(cells));
    i -= i >= 2 * cells ? 2 * cells : 0;
    return i >= cells ? i - cells : i;
  };
  std::ranges::fill(counts, 0);
  std::size_t p = 0;
  for (int x = 0; x < n; ++x) {
    for (int y = 0; y < n; ++y) {
      for (int w = 0; w < n; ++w, ++p) {
        float m[3] = {s1 * psi1_[0][p], s1 * psi1_[1][p], s1 * psi1_[2][p]};
        if (second) {
          for (int axis = 0; axis < 3; ++axis) m[axis] += s2 * psi2_[axis][p];
        }
        const std::size_t cx = cell_of(x, m[0]), cy = cell_of(y, m[1]), cz = cell_of(w, m[2]);
        ++counts[(cx * cells + cy) * cells + cz];
      }
    }
  }
}

}  // namespace keelson::universe
