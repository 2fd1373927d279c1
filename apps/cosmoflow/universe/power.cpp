#include "apps/cosmoflow/universe/power.hpp"

#include <cmath>
#include <numbers>
#include <numeric>

#include "engine/base/error.hpp"

namespace keelson::universe {

std::vector<PowerBin> measure_power(const Fft3d& fft, const RealGrid& delta, double side, const PowerOptions& options) {
  if (!(options.bin_width > 0 && side > 0)) {
    refuse("power spectrum with bins {} fundamentals wide in a box of {} Mpc/h: expected positive numbers",
           options.bin_width, side);
  }
  const int n = fft.n(), largest = largest_frequency(n);
  ModeGrid modes(fft.modes());
  fft.forward(delta, modes);

  std::vector<double> window(largest + 1, 1.0);  // sinc^2 along one axis
  for (int f = 1; options.undo_cell_window && f <= largest; ++f) {
    const double x = std::numbers::pi * f / n;
    window[f] = std::pow(std::sin(x) / x, 2);
  }
  const double fundamental = 2 * std::numbers::pi / side, volume = side * side * side;
  const double scale = volume / (static_cast<double>(fft.cells()) * static_cast<double>(fft.cells()));

  std::vector<PowerBin> bins(static_cast<std::size_t>(std::max(0.0, (largest - 0.5) / options.bin_width)) + 1);
  std::size_t m = 0;
  for (int x = 0; x < n; ++x) {
    for (int y = 0; y < n; ++y) {
      for (int fz = 0; fz <= n / 2; ++fz, ++m) {
        const int fx = frequency(x, n), fy = frequency(y, n);
        const double radius =
            std::sqrt(static_cast<double>(fx) * fx + static_cast<double>(fy) * fy + static_cast<double>(fz) * fz);
        if (radius < 0.5 || radius > largest) continue;
        // In the plane fz = 0 both modes k and -k are stored; elsewhere only one of them is.
        if (fz == 0 && (fy < 0 || (fy == 0 && fx < 0))) continue;
        PowerBin& bin = bins[static_cast<std::size_t>((radius - 0.5) / options.bin_width)];
        bin.k += fundamental * radius;
        bin.power += scale * std::norm(modes[m]) / (window[std::abs(fx)] * window[std::abs(fy)] * window[fz]);
        ++bin.modes;
      }
    }
  }
  std::erase_if(bins, [](const PowerBin& b) { return b.modes == 0; });
  const double shot_noise = options.particles > 0 ? volume / options.particles : 0;
  for (PowerBin& b : bins) {
    b.k /= static_cast<double>(b.modes);
    b.power = b.power / static_cast<double>(b.modes) - shot_noise;
  }
  return bins;
}

void density_contrast(std::span<const std::int32_t> counts, RealGrid& delta) {
  const double mean = std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(counts.size());
  if (!(mean > 0)) refuse("density contrast of an empty grid: expected particles in it");
  delta.resize(counts.size());
  for (std::size_t c = 0; c < delta.size(); ++c) delta[c] = static_cast<float>(counts[c] / mean - 1);
}

}  // namespace keelson::universe
