#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

/// Simulated collisions like those of the HIGGS data set (Baldi, Sadowski, Whiteson, Nature Communications 5, 2014): a
/// signal with new Higgs bosons, gg -> H0 (425 GeV) -> W H+ (325 GeV) -> W W h (125 GeV) -> W W b b, and a background
/// of top quarks with the same particles in the end, t t -> W b W b. One W decays to a lepton and a neutrino, the other
/// to two jets.
///
/// The physics is a simplification of its own: isotropic two-body decays of particles with Breit-Wigner masses, smeared
/// energies, one jet that may be replaced by radiation, tags of b jets with errors. So figures on these events are not
/// those on HIGGS.
namespace keelson::tabular {

inline constexpr std::size_t low_level_features = 21, high_level_features = 7;
inline constexpr std::size_t collision_features = low_level_features + high_level_features;

/// Names of the features, in the order of HIGGS: lepton, missing energy, four jets by falling pT with their b tags, and
/// seven masses of combinations. Momenta and masses in GeV.
const std::array<std::string, collision_features>& collision_feature_names();

/// One event that a detector has recorded.
struct Collision {
  bool signal = false;
  std::array<double, collision_features> features{};
};

/// Event `index` of a set: the same for the same seed, set and index, anywhere. Half of the events are signal.
Collision make_collision(std::uint64_t seed, const std::string& set, std::int64_t index);

}  // namespace keelson::tabular
