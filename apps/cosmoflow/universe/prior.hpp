#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "apps/cosmoflow/universe/transfer_function.hpp"

namespace keelson::universe {

/// The four quantities that the network predicts, in the order of the public CosmoFlow data: Omega_m, sigma_8, N_spec,
/// H_0.
inline constexpr int kParameters = 4;
using ParameterVector = std::array<double, kParameters>;
inline constexpr std::array<const char*, kParameters> kParameterNames{"Omega_m", "sigma_8", "N_spec", "H_0"};

/// Independent uniform distributions of the parameters, and the box and redshifts that go with them.
/// `unit` coordinates map [minimum, maximum] of each parameter linearly to [-1, 1] (the public data's `unitPar`).
struct Prior {
  std::string name;
  ParameterVector minimum{}, maximum{};  ///< H_0 in km/s/Mpc
  double omega_b = 0.049;
  double box_size = 256;   ///< side of the periodic box, Mpc/h
  double reference_h = 0;  ///< if > 0, the box has this side only at h = reference_h, and box_size * h / reference_h
                           ///< elsewhere: the same side in Mpc for every universe
  std::vector<double> redshifts{3, 1.5, 0.5, 0};  ///< one channel each, in this order

  ParameterVector physical(const ParameterVector& unit) const;
  ParameterVector unit(const ParameterVector& physical) const;
  CosmologyParameters cosmology(const ParameterVector& physical) const;
  double box_side(double h) const;  ///< Mpc/h

  /// Uniform draw for one universe; depends only on seed and universe. Resolution: 2^-32 of the range.
  ParameterVector draw(std::uint64_t seed, std::uint64_t universe) const;
};

/// `wide`: Omega_m .1-.5, sigma_8 .6-1, n_s .8-1.2, h .5-.9, boxes of 256 Mpc/h.
/// `public`: the ranges of the public CosmoFlow data (cosmoUniverse_2019_05_4parE, made by NERSC/cosmoflow-sims,
/// janWorkflow/prepMusic_4par.sh): 10 % around Omega_m .3, sigma_8 .8, n_s .96, H_0 70, Omega_b .045, boxes of 512
/// Mpc/h * H_0/70, and the channels in that data's order, redshifts 0, .5, 1.5, 3. Throws InputError for any other
/// name.
Prior prior_preset(std::string_view name);

/// Names that prior_preset knows.
std::vector<std::string> prior_presets();

/// Throws InputError for empty ranges, impossible cosmologies at a corner, a box or redshift that makes no sense.
void check(const Prior& prior);

}  // namespace keelson::universe
