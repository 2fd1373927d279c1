#include "apps/minerva/detector/event.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <tuple>

namespace keelson::minerva {
namespace {

constexpr double light_speed = 299.792458;  // mm/ns
constexpr double minimum_loss = 1.95;       // MeV cm^2/g
constexpr double light_yield = 6;           // photo-electrons per MeV
constexpr double threshold = 0.8;           // MeV
constexpr double time_resolution = 3;       // ns
constexpr double cross_talk = 0.03;         // hits that make another one in their plane
constexpr double overlay = 0.1;             // events with a muon from the rock upstream
constexpr double pion_interaction_length = 85, critical_energy = 90, least_slope = 0.02;
constexpr double substep = 8;  // mm across strips

}  // namespace

StripShare strip_share(double coordinate) {
  const double place = coordinate / strip_pitch + 63, below = std::floor(place);
  return {static_cast<int>(below), 1 - (place - below)};
}

double proton_range(double energy) { return 0.0022 * std::pow(energy, 1.77); }
double proton_energy(double range) { return range <= 0 ? 0 : std::pow(range / 0.0022, 1 / 1.77); }

std::int64_t columns_of(ImageSize size, View view) {
  const std::int64_t x = size == ImageSize::cropped ? 50 : 94;
  return view == View::x ? x : x / 2;
}

void draw(const Event& event, View view, std::int64_t columns, std::int64_t channels, std::span<float> image) {
  std::ranges::fill(image, 0.0f);
  for (const Hit& hit : event.hits) {
    if (hit.view != view || hit.column >= columns) continue;
    const auto at = static_cast<std::size_t>(hit.strip * columns + hit.column);
    image[at] = static_cast<float>(hit.energy);
    if (channels > 1) image[at + static_cast<std::size_t>(strips * columns)] = static_cast<float>(hit.time);
  }
}

EventMaker::EventMaker(const Detector& detector)
    : detector_(detector), cells_(detector.layers().size() * static_cast<std::size_t>(strips)) {}

/// A direction at this angle to that of `from`, from the same place.
EventMaker::Track EventMaker::directed(const Track& from, double cosine, double azimuth) const {
  const double sine = std::sqrt(std::max(0.0, 1 - cosine * cosine));
  const double a = sine * std::cos(azimuth), b = sine * std::sin(azimuth);
  Track t = from;
  const double across = std::hypot(from.dx, from.dy);
  if (across < 1e-9) {
    const double sign = from.dz < 0 ? -1 : 1;
    t.dx = a;
    t.dy = b;
    t.dz = sign * cosine;
    return t;
  }
  t.dx = from.dx * cosine + (from.dx * from.dz * a - from.dy * b) / across;
  t.dy = from.dy * cosine + (from.dy * from.dz * a + from.dx * b) / across;
  t.dz = from.dz * cosine - across * a;
  return t;
}

void EventMaker::deposit(const DetectorLayer& plane, double x, double y, double energy, double time) {
  const auto [first, share] = strip_share(coordinate(plane.view, x, y));
  const auto row = (&plane - detector_.layers().data()) * strips;
  for (int i = 0; i < 2; ++i) {
    const int strip = first + i;
    const double part = energy * (i == 0 ? share : 1 - share);
    if (strip < 0 || strip >= strips || part <= 0) continue;
    Cell& cell = cells_[static_cast<std::size_t>(row + strip)];
    if (cell.energy == 0) touched_.push_back(static_cast<std::int32_t>(row + strip));
    // The first light counts.
    cell.time = cell.energy == 0 ? static_cast<float>(time) : std::min(cell.time, static_cast<float>(time));
    cell.energy += static_cast<float>(part);
  }
}

template <class Step>
void EventMaker::fly(const Track& track, const Step& step, double spread) {
  const auto& layers = detector_.layers();
  Track t = track;
  if (std::abs(t.dz) < least_slope) t.dz = t.dz < 0 ? -least_slope : least_slope;
  const bool downstream = t.dz > 0;
  const double per_mm = std::hypot(t.dx, t.dy) / std::abs(t.dz);
  // The layer that the track begins in, or the first one that it meets.
  const auto begin = std::ranges::find_if(layers, [&](const DetectorLayer& l) { return l.end > t.z; }) - layers.begin();
  for (auto i = begin; i >= 0 && i < std::ssize(layers); i += downstream ? 1 : -1) {
    const DetectorLayer& layer = layers[static_cast<std::size_t>(i)];
    const double enter = downstream ? std::max(layer.begin, t.z) : std::min(layer.end, t.z);
    const double x = t.x + t.dx * (enter - t.z) / t.dz, y = t.y + t.dy * (enter - t.z) / t.dz;
    if (!is_in_hexagon(x, y, detector_apothem)) return;
    const Material m = detector_.material(layer, x, y);
    const double end = downstream ? layer.begin + m.thickness : layer.begin;
    const double length = downstream ? end - enter : enter - end;  // along z
    if (length <= 0 || m.density == 0) continue;
    const int steps = layer.kind == LayerKind::plane ? 1 + static_cast<int>(length * per_mm / substep) : 1;
    for (int k = 0; k < steps; ++k) {
      const double at = enter + (downstream ? 1 : -1) * length * (k + 0.5) / steps;
      const double path = (at - t.z) / t.dz;
      const double left = step(m.density * length / steps / std::abs(t.dz) / 10, m.radiation_length);
      if (left < 0) return;
      if (layer.kind != LayerKind::plane || left == 0) continue;
      double px = t.x + t.dx * path, py = t.y + t.dy * path;
      if (!is_in_hexagon(px, py, detector_apothem)) return;
      if (spread > 0) {
        px += draws_.normal(spread);
        py += draws_.normal(spread);
      }
      deposit(layer, px, py, left, t.time + path / light_speed);
    }
  }
}

void EventMaker::add_minimum_ionizing(const Track& track, double range) {
  fly(
      track,
      [&](double grams, double) {
        if (range <= 0) return -1.0;
        const double path = std::min(grams, range);
        range -= grams;
        return std::max(0.0, minimum_loss * path * (1 + draws_.gumbel(0.1)));
      },
      0);
}

void EventMaker::add_muon(const Track& track, double energy) { add_minimum_ionizing(track, energy / 2); }

void EventMaker::add_proton(const Track& track, double energy) {
  double range = proton_range(energy);
  fly(
      track,
      [&](double grams, double) {
        if (range <= 0) return -1.0;
        const double before = proton_energy(range);
        range -= grams;
        return before - proton_energy(range);
      },
      0);
}

void EventMaker::add_pion(const Track& track, double energy) {
  add_minimum_ionizing(track, std::min(energy / 2, draws_.exponential(pion_interaction_length)));
}

/// The mean profile of a shower (Longo and Sestili 1975): dE/dt = E b (b t)^(a - 1) exp(-b t) / Gamma(a), where t
/// counts radiation lengths behind the conversion.
void EventMaker::add_photon(const Track& track, double energy) {
  constexpr double b = 0.5, longest = 25, spread = 12;
  const double a = 1 + b * std::max(0.2, std::log(energy / critical_energy) + 0.5);
  const double norm = energy * b / std::tgamma(a);
  double t = -draws_.exponential(9.0 / 7);
  fly(
      track,
      [&](double grams, double radiation_length) {
        const double before = std::max(0.0, t), length = grams / radiation_length;
        t += length;
        if (before > longest) return -1.0;
        if (t <= 0) return 0.0;
        const double middle = b * (before + t) / 2;
        return norm * std::pow(middle, a - 1) * std::exp(-middle) * (t - before);
      },
      spread);
}

void EventMaker::add_neutral_pion(const Track& vertex) {
  constexpr double mass = 135;
  const double kinetic = draws_.exponential(300), total = mass + kinetic, gamma = total / mass;
  const double beta = std::sqrt(1 - 1 / (gamma * gamma));
  const double cosine = 1 - std::min(2.0, draws_.exponential(0.5));
  const Track pion = directed(vertex, cosine, draws_.uniform(0, 2 * std::numbers::pi));
  const double at_rest = draws_.uniform(-1, 1), azimuth = draws_.uniform(0, 2 * std::numbers::pi);
  for (const double sign : {1.0, -1.0}) {
    const double angle = sign * at_rest, photon = gamma * mass / 2 * (1 + beta * angle);
    if (photon < 10) continue;
    const Track t = directed(pion, (angle + beta) / (1 + beta * angle), azimuth + (sign < 0 ? std::numbers::pi : 0));
    add_photon(t, photon);
  }
}

void EventMaker::place_vertex(Event& event) {
  do {
    event.x = draws_.uniform(-1, 1) * fiducial_apothem;
    event.y = draws_.uniform(-1, 1) * fiducial_apothem * 2 / std::numbers::sqrt3;
  } while (!is_in_hexagon(event.x, event.y, fiducial_apothem));
  double all = 0;
  const auto grams = [&](const DetectorLayer& l) {
    return l.code <= last_vertex_code ? detector_.material(l, event.x, event.y).grams() : 0;
  };
  for (const DetectorLayer& l : detector_.layers()) all += grams(l);
  double rest = draws_.uniform() * all;
  for (const DetectorLayer& l : detector_.layers()) {
    const double here = grams(l);
    rest -= here;
    if (rest >= 0 || here == 0) continue;
    event.planecode = l.code;
    event.segment = l.segment;
    event.z = l.begin + draws_.uniform() * detector_.material(l, event.x, event.y).thickness;
    return;
  }
}

void EventMaker::add_rock_muon() {
  Track t{.z = detector_.layers().front().begin - 1};
  do {
    t.x = draws_.uniform(-1, 1) * detector_apothem;
    t.y = draws_.uniform(-1, 1) * detector_apothem * 2 / std::numbers::sqrt3;
  } while (!is_in_hexagon(t.x, t.y, detector_apothem));
  t.time = draws_.uniform(-20, 20);
  const double cosine = std::cos(draws_.normal(0.1));
  add_muon(directed(t, cosine, draws_.uniform(0, 2 * std::numbers::pi)), 5000);
}

/// From light to hits: photo-electrons, threshold, time, cross-talk.
void EventMaker::read_out(Event& event) {
  std::ranges::sort(touched_);
  const auto& layers = detector_.layers();
  std::vector<Hit> read;
  for (const auto cell : touched_) {
    const Cell& c = cells_[static_cast<std::size_t>(cell)];
    const double energy = static_cast<double>(draws_.poisson(light_yield * double{c.energy})) / light_yield;
    const double time = double{c.time} + draws_.normal(time_resolution);
    const DetectorLayer& plane = layers[static_cast<std::size_t>(cell / strips)];
    const bool leaks = draws_.uniform() < cross_talk;
    const double leaked = 0.5 + draws_.exponential(1), other = draws_.uniform() * strips;
    if (energy < threshold) continue;
    const Hit hit{plane.view, plane.column, cell % strips, energy, time};
    read.push_back(hit);
    // Light gets to a neighbour on the photomultiplier, whose strip may be anywhere in the plane.
    if (!leaks || leaked < threshold) continue;
    Hit second = hit;
    second.strip = static_cast<int>(other);
    second.energy = leaked;
    read.push_back(second);
  }
  for (const auto cell : touched_) cells_[static_cast<std::size_t>(cell)] = {};
  touched_.clear();
  if (read.empty()) return;
  std::vector<double> times;
  for (const Hit& h : read) times.push_back(h.time);
  const auto middle = times.begin() + std::ssize(times) / 2;
  std::ranges::nth_element(times, middle);
  for (Hit& h : read) {
    if (h.column < 0) continue;
    h.time -= *middle;
    event.hits.push_back(h);
  }
  const auto place = [](const Hit& h) { return std::tuple(h.view, h.column, h.strip); };
  std::ranges::stable_sort(event.hits, {}, place);
  // Light that meets in one strip is one hit, whose time is that of the first light.
  std::vector<Hit> merged;
  for (const Hit& h : event.hits) {
    if (merged.empty() || place(merged.back()) != place(h)) {
      merged.push_back(h);
      continue;
    }
    merged.back().energy += h.energy;
    merged.back().time = std::min(merged.back().time, h.time);
  }
  event.hits = std::move(merged);
}

Event EventMaker::make(std::uint64_t seed, const std::string& set, std::int64_t index) {
  draws_ = Draws(philox::Key{seed, philox::stream_of("minerva/" + set), static_cast<std::uint64_t>(index)});
  Event event;
  place_vertex(event);
  const Track vertex{.x = event.x, .y = event.y, .z = event.z};
  const auto azimuth = [&] { return draws_.uniform(0, 2 * std::numbers::pi); };
  const auto neutrino = [&](double cosine) { return directed(vertex, cosine, azimuth()); };
  // A draw for each statement: the order of two in one expression is not defined.
  const double most = 2000 * draws_.gamma(3);
  const double muon = 1000 + most * draws_.beta(3, 2);
  add_muon(neutrino(std::cos(draws_.normal(0.2))), muon);
  const auto protons = 1 + draws_.poisson(0.7), pions = draws_.poisson(0.8), neutral = draws_.poisson(0.3);
  for (std::int64_t i = 0; i < protons; ++i) {
    const double energy = 50 + draws_.exponential(130);
    add_proton(neutrino(draws_.uniform(-0.3, 1)), energy);
  }
  for (std::int64_t i = 0; i < pions; ++i) {
    const double energy = 100 + draws_.exponential(500);
    add_pion(neutrino(1 - std::min(2.0, draws_.exponential(0.5))), energy);
  }
  for (std::int64_t i = 0; i < neutral; ++i) add_neutral_pion(vertex);
  if (draws_.uniform() < overlay) add_rock_muon();
  read_out(event);
  return event;
}

}  // namespace keelson::minerva
