#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/cosmoflow/universe/fft.hpp"

namespace keelson::universe {

struct PowerOptions {
  double bin_width = 1;  ///< in units of the fundamental 2 pi / side; the first shell starts at 0.5
  double particles = 0;  ///< if > 0, subtract the Poisson shot noise side^3 / particles
  bool undo_cell_window =
      false;  ///< divide by the squared window of nearest-grid-point counting, prod_i sinc^2(k_i side / 2n)
};

/// One shell of wave numbers.
struct PowerBin {
  double k = 0;            ///< mean wave number of its modes, h/Mpc
  double power = 0;        ///< mean power, (Mpc/h)^3
  std::int64_t modes = 0;  ///< independent modes; for a Gaussian field, power scatters by power / sqrt(modes)
};

/// Shell-averaged power spectrum, side^3 <|delta_k|^2>, of a density contrast on the grid of `fft` in a periodic box of
/// `side` Mpc/h. The shells reach up to the Nyquist sphere, without the Nyquist planes, which field.hpp leaves empty.
std::vector<PowerBin> measure_power(const Fft3d& fft, const RealGrid& delta, double side,
                                    const PowerOptions& options = {});

/// Density contrast count / mean - 1.
void density_contrast(std::span<const std::int32_t> counts, RealGrid& delta);

}  // namespace keelson::universe
