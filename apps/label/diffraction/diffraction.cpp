#include "apps/label/diffraction/diffraction.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "engine/base/draws.hpp"

namespace keelson::label {
namespace {

using std::numbers::pi;

constexpr double ice_a = 4.511, ice_c = 7.346;
constexpr double grain_width = 0.06;   // rad
constexpr double finest_points = 128;  // points along an edge with which the narrowest rings are resolved
constexpr double readout_noise = 0.5;  // photons
constexpr double dead_pixels = 0.001;
constexpr double most_jitter = 0.5;  // mm, of the beam's centre in both directions
constexpr double shot_spread = 0.6;  // standard deviation of the logarithm of the photons

/// A ring of ice: its grains give spots.
struct IceRing {
  double q, brightness;
  struct Grain {
    double azimuth, weight;
  };
  std::vector<Grain> grains;
};

struct Ice {
  double width = 0;    ///< standard deviation of a ring in q
  double texture = 0;  ///< part of the light that all azimuths get alike
  std::vector<IceRing> rings;

  double operator()(double q, double azimuth) const {
    double sum = 0;
    for (const IceRing& r : rings) {
      const double x = (q - r.q) / width;
      constexpr double far = 5;  // widths
      if (std::abs(x) > far) continue;
      double spots = 0;
      for (const auto& g : r.grains) {
        const double turn = std::remainder(azimuth - g.azimuth, 2 * pi) / grain_width;
        if (std::abs(turn) < far) spots += g.weight * std::exp(-turn * turn / 2);
      }
      sum += r.brightness / 100 * std::exp(-x * x / 2) * (texture + (1 - texture) * spots);
    }
    return sum;
  }
};

Ice draw_ice(Draws& d, bool cubic) {
  Ice ice{.width = d.uniform(0.03, 0.06), .texture = d.uniform(0, 0.6)};
  for (const IceLine& line : ice_lines()) {
    if (cubic && !line.cubic) continue;
    IceRing ring{line.q(), line.brightness, {}};
    for (auto grains = d.poisson(3 + line.brightness / 10); grains > 0; --grains) {
      const double azimuth = d.uniform(-pi, pi);
      ring.grains.push_back({azimuth, d.exponential(1)});
    }
    ice.rings.push_back(std::move(ring));
  }
  return ice;
}

/// What one droplet scatters.
struct Droplet {
  bool frozen = false;
  double supercooling = 0, photons = 0, ice_part = 0;
  Ice ice;

  Droplet(const ShotOptions& o, Draws& d)
      : frozen(d.uniform() < o.ice), supercooling(d.uniform()), photons(o.photons * std::exp(d.normal(shot_spread))) {}

  void draw_its_ice(const ShotOptions& o, Draws& d) {
    if (!frozen) return;
    ice_part = o.least_ice + 0.7 * d.beta(0.8, 1.3);
    ice = draw_ice(d, d.uniform() < o.cubic);
  }

  /// Photons at the place of this momentum transfer and azimuth, but for the factors of the geometry.
  double operator()(double q, double azimuth) const {
    const double water = (1 - ice_part) * water_factor(q, supercooling);
    return photons * (frozen ? water + ice_part * ice(q, azimuth) : water);
  }
};

/// What the droplets say of a shot as a whole.
void describe_droplets(const std::vector<Droplet>& droplets, Shot& shot) {
  double photons = 0, of_ice = 0;
  for (const Droplet& droplet : droplets) {
    shot.ice = shot.ice || droplet.frozen;
    photons += droplet.photons;
    of_ice += droplet.photons * droplet.ice_part;
  }
  if (droplets.empty()) return;
  shot.ice_part = of_ice / photons;
  shot.supercooling = droplets[0].supercooling;
}

/// How many droplets a shot hits.
int draw_droplets(const ShotOptions& o, Draws d) {
  const double u = d.uniform();
  if (u < o.empty) return 0;
  return u < o.empty + o.two_droplets ? 2 : 1;
}

}  // namespace

double Detector::q_of(double radius) const { return 4 * pi / wavelength * std::sin(std::atan(radius / distance) / 2); }

double IceLine::d() const {
  const double plane = 4.0 / 3 * (h * h + h * k + k * k) / (ice_a * ice_a) + l * l / (ice_c * ice_c);
  return 1 / std::sqrt(plane);
}
double IceLine::q() const { return 2 * pi / d(); }

const std::array<IceLine, 11>& ice_lines() {
  // Brightness: multiplicity * |F|^2 / q^2 of a powder whose molecules are spheres, O on 4f with z = 0.06226, B = 3.7
  // A^2 (Goto, Hondoh, Mae, J. Chem. Phys. 93, 1990).
  static constexpr std::array<IceLine, 11> lines{{{1, 0, 0, 100, false},
                                                  {0, 0, 2, 55, true},
                                                  {1, 0, 1, 58, false},
                                                  {1, 0, 2, 26, false},
                                                  {1, 1, 0, 51, true},
                                                  {1, 0, 3, 44, false},
                                                  {2, 0, 0, 6, false},
                                                  {1, 1, 2, 24, true},
                                                  {2, 0, 1, 5, false},
                                                  {2, 0, 2, 3, false},
                                                  {2, 0, 3, 9, false}}};
  return lines;
}

double water_factor(double q, double supercooling) {
  const double first = 2.0 - 0.10 * supercooling, second = 3.0 + 0.05 * supercooling,
               height = 0.62 + 0.25 * supercooling;
  const double x = (q - first) / 0.28, y = (q - second) / 0.33;
  return std::exp(-x * x / 2) + height * std::exp(-y * y / 2) + 0.25 * std::exp(-q * q / 8);
}

double polarization_factor(double two_theta, double azimuth) {
  constexpr double horizontal = 0.99;
  const double c = std::cos(azimuth), s = std::sin(azimuth), t = std::sin(two_theta);
  return 1 - (horizontal * c * c + (1 - horizontal) * s * s) * t * t;
}

Shot make_shot(const ShotOptions& o, std::uint64_t seed, const std::string& set, std::int64_t index) {
  const Detector& det = o.detector;
  const auto draws = [&](const char* what) {
    return Draws({seed, philox::stream_of(what + set), static_cast<std::uint64_t>(index)});
  };
  Shot shot{.droplets = draw_droplets(o, draws("diffraction/droplets/"))};
  Draws d = draws("diffraction/");
  std::vector<Droplet> droplets{Droplet(o, d)};
  const double background = d.uniform(0.5, 3);
  const double x0 = d.uniform(-most_jitter, most_jitter), y0 = d.uniform(-most_jitter, most_jitter);
  droplets[0].draw_its_ice(o, d);
  if (shot.droplets == 0) droplets.clear();
  if (shot.droplets == 2) {
    Draws other = draws("diffraction/second/");
    droplets.emplace_back(o, other);
    droplets[1].draw_its_ice(o, other);
  }
  describe_droplets(droplets, shot);
  const double pixel = 2 * det.half_width / static_cast<double>(det.size);
  const int points = std::max(1, static_cast<int>(std::ceil(finest_points / static_cast<double>(det.size))));
  // A pixel that is twice as wide sees four times as many photons.
  const double area = finest_points / static_cast<double>(det.size) * (finest_points / static_cast<double>(det.size));
  // The same pixels of a detector are dead in all shots.
  const philox::Key dead{seed, philox::stream_of("diffraction/dead"), 0};

  shot.counts.resize(static_cast<std::size_t>(det.size * det.size), std::numeric_limits<float>::quiet_NaN());
  for (std::int64_t row = 0; row < det.size; ++row)
    for (std::int64_t column = 0; column < det.size; ++column) {
      const double x = (static_cast<double>(column) + 0.5) * pixel - det.half_width,
                   y = (static_cast<double>(row) + 0.5) * pixel - det.half_width;
      const auto place = static_cast<std::size_t>(row * det.size + column);
      if (std::abs(x) < det.gap || std::abs(y) < det.gap || std::hypot(x, y) < det.beam_stop ||
          philox::uniform(dead, place) < static_cast<float>(dead_pixels))
        continue;
      double mean = 0;
      for (int i = 0; i < points * points; ++i) {
        const int row_of_point = i / points, column_of_point = i % points;
        const double px = x - x0 + ((column_of_point + 0.5) / points - 0.5) * pixel,
                     py = y - y0 + ((row_of_point + 0.5) / points - 0.5) * pixel;
        const double radius = std::hypot(px, py), azimuth = std::atan2(py, px),
                     two_theta = std::atan(radius / det.distance);
        const double q = det.q_of(radius), cosine = std::cos(two_theta);
        double seen = 0;
        for (const Droplet& droplet : droplets) seen += droplet(q, azimuth);
        mean += cosine * cosine * cosine * polarization_factor(two_theta, azimuth) * seen;
      }
      mean = area * (mean / (points * points) + background);
      const auto count = static_cast<double>(d.poisson(mean));
      shot.counts[place] = static_cast<float>(count + d.normal(readout_noise));
    }
  return shot;
}

}  // namespace keelson::label
