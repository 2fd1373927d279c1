#include "apps/cosmoflow/universe/prior.hpp"

#include <cmath>

#include "apps/cosmoflow/universe/random_streams.hpp"
#include "engine/base/error.hpp"

namespace keelson::universe {
namespace {

Prior wide() { return {"wide", {0.1, 0.6, 0.8, 50}, {0.5, 1.0, 1.2, 90}, 0.049, 256, 0, {3, 1.5, 0.5, 0}}; }

Prior public_data() {
  return {"public", {0.27, 0.72, 0.864, 63}, {0.33, 0.88, 1.056, 77}, 0.045, 512, 0.7, {0, 0.5, 1.5, 3}};
}

}  // namespace

ParameterVector Prior::physical(const ParameterVector& unit) const {
  ParameterVector p;
  for (int i = 0; i < kParameters; ++i) p[i] = minimum[i] + (maximum[i] - minimum[i]) * (unit[i] + 1) / 2;
  return p;
}

ParameterVector Prior::unit(const ParameterVector& physical) const {
  ParameterVector u;
  for (int i = 0; i < kParameters; ++i) u[i] = 2 * (physical[i] - minimum[i]) / (maximum[i] - minimum[i]) - 1;
  return u;
}

CosmologyParameters Prior::cosmology(const ParameterVector& physical) const {
  CosmologyParameters p;
  p.omega_m = physical[0];
  p.sigma_8 = physical[1];
  p.n_s = physical[2];
  p.h = physical[3] / 100;
  p.omega_b = omega_b;
  return p;
}

double Prior::box_side(double h) const { return reference_h > 0 ? box_size * h / reference_h : box_size; }

ParameterVector Prior::draw(std::uint64_t seed, std::uint64_t universe) const {
  const philox::Block bits = random_block(seed, RandomStream::kPriorDraw, universe, 0);
  ParameterVector u;
  for (int i = 0; i < kParameters; ++i) u[i] = (bits[i] + 0.5) * 0x1p-31 - 1;
  return physical(u);
}

Prior prior_preset(std::string_view name) {
  if (name == "wide") return wide();
  if (name == "public") return public_data();
  refuse("unknown prior '{}': expected wide or public", name);
}

std::vector<std::string> prior_presets() { return {"wide", "public"}; }

void check(const Prior& prior) {
  for (int i = 0; i < kParameters; ++i) {
    const double low = prior.minimum[i], high = prior.maximum[i];
    if (!(std::isfinite(low) && std::isfinite(high) && low < high)) {
      refuse("prior {}: range of {} is [{}, {}]; expected minimum < maximum", prior.name, kParameterNames[i], low,
             high);
    }
  }
  check(prior.cosmology(prior.minimum));
  check(prior.cosmology(prior.maximum));
  if (!(prior.box_size > 0 && std::isfinite(prior.box_size))) {
    refuse("box of {} Mpc/h: expected a positive length", prior.box_size);
  }
  if (prior.redshifts.empty()) refuse("no redshifts: expected at least one, e.g. 3 1.5 0.5 0");
  for (double z : prior.redshifts) {
    if (!(z >= 0 && z <= 1000)) refuse("redshift {}: expected 0 to 1000 (radiation is neglected)", z);
  }
}

}  // namespace keelson::universe
