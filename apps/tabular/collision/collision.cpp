#include "apps/tabular/collision/collision.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "apps/tabular/collision/four_vector.hpp"
#include "engine/base/draws.hpp"

namespace keelson::tabular {
namespace {

constexpr double w_mass = 80.4, top_mass = 173, light_higgs = 125, charged_higgs = 325, heavy_higgs = 425;
constexpr double w_width = 2.1, top_width = 1.4, light_width = 0.01, charged_width = 8, heavy_width = 8;
constexpr double b_mass = 4.7;
constexpr double least_momentum = 20, most_pseudorapidity = 2.5;  // that a detector sees

/// A mass by Breit and Wigner's distribution, at most 10 widths away.
double breit_wigner(Draws& d, double mass, double width) {
  for (;;) {
    const double shift = std::tan(std::numbers::pi * (d.uniform() - 0.5)) / 2;
    if (std::abs(shift) < 10 && mass + width * shift > 0) return mass + width * shift;
  }
}

struct Pair {
  FourVector first, second;
};

/// The isotropic decay of a particle into two, of these masses.
Pair decay(Draws& d, const FourVector& parent, double first, double second) {
  const double m = parent.mass(), sum = first + second, difference = first - second;
  const double p = std::sqrt(std::max(0.0, (m * m - sum * sum) * (m * m - difference * difference))) / (2 * m);
  const double cosine = 2 * d.uniform() - 1, azimuth = 2 * std::numbers::pi * d.uniform();
  const double sine = std::sqrt(1 - cosine * cosine);
  const FourVector at_rest{std::hypot(p, first), p * sine * std::cos(azimuth), p * sine * std::sin(azimuth),
                           p * cosine};
  const FourVector other{std::hypot(p, second), -at_rest.x, -at_rest.y, -at_rest.z};
  return {boosted(at_rest, parent), boosted(other, parent)};
}

/// A system of this mass, as two protons make it.
FourVector produced(Draws& d, double mass) {
  const double transverse = d.exponential(35), azimuth = 2 * std::numbers::pi * d.uniform(), rapidity = d.normal(1.1);
  const double energy = std::hypot(mass, transverse);
  return {energy * std::cosh(rapidity), transverse * std::cos(azimuth), transverse * std::sin(azimuth),
          energy * std::sinh(rapidity)};
}

/// The two W and the two b of an event. Nothing: the masses that were drawn do not allow the decays.
struct Partons {
  FourVector w[2], b[2];
};

std::optional<Partons> signal(Draws& d) {
  const double heavy = breit_wigner(d, heavy_higgs, heavy_width),
               charged = breit_wigner(d, charged_higgs, charged_width),
               light = breit_wigner(d, light_higgs, light_width);
  const double w[2] = {breit_wigner(d, w_mass, w_width), breit_wigner(d, w_mass, w_width)};
  if (heavy <= charged + w[0] || charged <= light + w[1]) return std::nullopt;
  const Pair outer = decay(d, produced(d, heavy), w[0], charged), inner = decay(d, outer.second, w[1], light),
             bottom = decay(d, inner.second, b_mass, b_mass);
  return Partons{{outer.first, inner.first}, {bottom.first, bottom.second}};
}

std::optional<Partons> background(Draws& d) {
  const double mass = 2 * top_mass + 5 + d.exponential(110);
  const double top[2] = {breit_wigner(d, top_mass, top_width), breit_wigner(d, top_mass, top_width)};
  const double w[2] = {breit_wigner(d, w_mass, w_width), breit_wigner(d, w_mass, w_width)};
  if (mass <= top[0] + top[1] || top[0] <= w[0] + b_mass || top[1] <= w[1] + b_mass) return std::nullopt;
  const Pair tops = decay(d, produced(d, mass), top[0], top[1]);
  const Pair first = decay(d, tops.first, w[0], b_mass), second = decay(d, tops.second, w[1], b_mass);
  return Partons{{first.first, second.first}, {first.second, second.second}};
}

struct Jet {
  FourVector p;
  bool is_b = false;
  double tag = 0;
};

/// What the detector measures of a jet. `lost` grows by the transverse momentum that is missing.
void measure(Draws& d, Jet& jet, double& lost_x, double& lost_y) {
  const double energy = std::max(1.0, jet.p.e), spread = std::hypot(1.0 / std::sqrt(energy), 0.10);
  const FourVector seen = jet.p * std::max(0.05, 1 + d.normal(spread));
  lost_x += jet.p.x - seen.x;
  lost_y += jet.p.y - seen.y;
  jet.p = seen;
}

/// 2, 1 or 0: how sure the detector is that the jet comes from a b quark.
double tag_of(Draws& d, bool is_b) {
  const double u = d.uniform(), two = is_b ? 0.5 : 0.01, one = is_b ? 0.2 : 0.09;
  return u < two ? 2 : u < two + one ? 1 : 0;
}

bool is_seen(const FourVector& p) {
  return p.transverse() > least_momentum && std::abs(p.pseudorapidity()) < most_pseudorapidity;
}

struct Event {
  FourVector lepton, missing;  ///< missing: in the transverse plane
  std::array<Jet, 4> jets;     ///< by falling pT
};

/// The neutrino with the missing momentum that makes a W with the lepton; of two solutions the one with the smaller
/// longitudinal momentum, and of none the one that comes closest.
FourVector neutrino_of(const FourVector& lepton, const FourVector& missing) {
  const double pt = lepton.transverse(), met = missing.transverse();
  const double mu = w_mass * w_mass / 2 + lepton.x * missing.x + lepton.y * missing.y;
  const double middle = mu * lepton.z / (pt * pt);
  const double inside = middle * middle - (lepton.e * lepton.e * met * met - mu * mu) / (pt * pt);
  const double root = std::sqrt(std::max(0.0, inside));
  const double z = std::abs(middle - root) < std::abs(middle + root) ? middle - root : middle + root;
  return {std::hypot(met, z), missing.x, missing.y, z};
}

/// One collision; nothing: the detector does not record it.
std::optional<Event> record(Draws& d, bool is_signal) {
  const auto partons = is_signal ? signal(d) : background(d);
  if (!partons) return std::nullopt;
  const int leptonic = d.uniform() < 0.5 ? 0 : 1;
  const Pair lepton = decay(d, partons->w[leptonic], 0, 0), quarks = decay(d, partons->w[1 - leptonic], 0, 0);
  Event event;
  event.jets = {{{partons->b[0], true}, {partons->b[1], true}, {quarks.first}, {quarks.second}}};
  double lost_x = 0, lost_y = 0;
  for (Jet& jet : event.jets) measure(d, jet, lost_x, lost_y);
  if (d.uniform() < 0.5) {
    Jet& replaced = event.jets[static_cast<std::size_t>(4 * d.uniform())];
    const double transverse = 25 + d.exponential(35), eta = most_pseudorapidity * (2 * d.uniform() - 1);
    replaced = {FourVector::massless(transverse, eta, 2 * std::numbers::pi * d.uniform())};
  }
  double tags = 0;
  for (Jet& jet : event.jets) tags += jet.tag = tag_of(d, jet.is_b);
  event.lepton = lepton.first;
  const double x = lepton.second.x + lost_x + d.normal(8), y = lepton.second.y + lost_y + d.normal(8);
  event.missing = {std::hypot(x, y), x, y, 0};
  const bool jets_seen = std::ranges::all_of(event.jets, [](const Jet& j) { return is_seen(j.p); });
  if (tags == 0 || !is_seen(event.lepton) || !jets_seen) return std::nullopt;
  std::ranges::sort(event.jets, [](const Jet& a, const Jet& b) { return a.p.transverse() > b.p.transverse(); });
  return event;
}

double closest_to(double target, double a, double b) { return std::abs(a - target) < std::abs(b - target) ? a : b; }

/// Masses of combinations: of the particles that a physicist would look for.
void add_masses(const Event& event, double* masses) {
  std::array<Jet, 4> jets = event.jets;
  std::ranges::stable_sort(jets, [](const Jet& a, const Jet& b) { return a.tag > b.tag; });
  const FourVector b[2] = {jets[0].p, jets[1].p}, jj = jets[2].p + jets[3].p;
  const FourVector lv = event.lepton + neutrino_of(event.lepton, event.missing), bb = b[0] + b[1];
  const double jjj[2] = {(jj + b[0]).mass(), (jj + b[1]).mass()}, jlv[2] = {(lv + b[0]).mass(), (lv + b[1]).mass()};
  // Which b belongs to which W: the pairing whose masses are those of two tops.
  const auto off = [&](int i) { return std::abs(jjj[i] - top_mass) + std::abs(jlv[1 - i] - top_mass); };
  const int with_jets = off(0) < off(1) ? 0 : 1;
  masses[0] = jj.mass();
  masses[1] = jjj[with_jets];
  masses[2] = lv.mass();
  masses[3] = jlv[1 - with_jets];
  masses[4] = bb.mass();
  masses[5] = closest_to(charged_higgs, (jj + bb).mass(), (lv + bb).mass());
  masses[6] = (jj + lv + bb).mass();
}

}  // namespace

const std::array<std::string, collision_features>& collision_feature_names() {
  static const auto names = [] {
    std::array<std::string, collision_features> all{"lepton_pT", "lepton_eta", "lepton_phi", "missing_energy",
                                                    "missing_energy_phi"};
    std::size_t at = 5;
    for (int jet = 1; jet <= 4; ++jet)
      for (const char* what : {"pT", "eta", "phi", "b_tag"}) all[at++] = fmt::format("jet{}_{}", jet, what);
    for (const char* mass : {"m_jj", "m_jjj", "m_lv", "m_jlv", "m_bb", "m_wbb", "m_wwbb"}) all[at++] = mass;
    return all;
  }();
  return names;
}

Collision make_collision(std::uint64_t seed, const std::string& set, std::int64_t index) {
  Draws d({seed, philox::stream_of("collision " + set), static_cast<std::uint64_t>(index)});
  Collision c;
  c.signal = d.uniform() < 0.5;
  std::optional<Event> event;
  while (!event) event = record(d, c.signal);
  c.features = {event->lepton.transverse(), event->lepton.pseudorapidity(), event->lepton.azimuth(),
                event->missing.transverse(), event->missing.azimuth()};
  std::size_t at = 5;
  for (const Jet& jet : event->jets)
    for (const double value : {jet.p.transverse(), jet.p.pseudorapidity(), jet.p.azimuth(), jet.tag})
      c.features[at++] = value;
  add_masses(*event, c.features.data() + low_level_features);
  return c;
}

}  // namespace keelson::tabular
