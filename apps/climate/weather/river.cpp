#include "apps/climate/weather/river.hpp"

#include <algorithm>
#include <cmath>

#include "apps/climate/weather/channels.hpp"
#include "apps/climate/weather/physics.hpp"

namespace keelson::climate {
namespace {

constexpr int kAxisPoints = 121;
constexpr double kCut = 6;        // half-widths at which the river is cut: exp(-x^2/2) is 2e-8 there
constexpr double kEnd = 0.15;     // share of the length over which a river begins and ends
constexpr double kSurface = 0.6;  // share of the wind at 850 hPa
constexpr double kWarming = 3;    // K

Vector minus(const Vector& a, const Vector& b) { return {a[0] - b[0], a[1] - b[1], a[2] - b[2]}; }

double angle(const Vector& a, const Vector& b) { return std::acos(clip(dot(a, b), -1, 1)); }

}  // namespace

River::River(const SnapshotKey& key, int number) {
  Draws draws(key, RandomStream::kRivers, static_cast<std::uint64_t>(number) + 1);
  const double hemisphere = draws.uniform(-1, 1) < 0 ? -1 : 1;
  const double first_lat = draws.uniform(20, 30) * kDegree, last_lat = draws.uniform(42, 58) * kDegree;
  const double first_lon = draws.uniform(0, 360) * kDegree, width = draws.uniform(25, 55) * kDegree;
  const double bend = draws.uniform(-0.06, 0.06);
  half_width_ = draws.uniform(170e3, 300e3);
  speed_ = draws.uniform(16, 28);
  water_ = draws.uniform(12, 22);

  south_ = 10;
  north_ = -10;
  for (int i = 0; i < kAxisPoints; ++i) {
    const double t = i / (kAxisPoints - 1.0);
    const double lat =
        hemisphere * (first_lat + (last_lat - first_lat) * t + 1.5 * bend * std::sin(std::numbers::pi * t));
    axis_.push_back({local_frame(lat, first_lon + width * t + bend * std::sin(2 * std::numbers::pi * t))});
    south_ = std::min(south_, lat);
    north_ = std::max(north_, lat);
  }
  for (int i = 0; i < kAxisPoints; ++i) {
    AxisPoint& p = axis_[i];
    const Vector chord = minus(axis_[std::min(i + 1, kAxisPoints - 1)].frame.up, axis_[std::max(i - 1, 0)].frame.up);
    p.left = unit(cross(p.frame.up, chord));
    p.along = cross(p.left, p.frame.up);
    if (i > 0) length_ += kRadius * angle(axis_[i - 1].frame.up, p.frame.up);
    p.before = length_;
  }
  const double margin = kCut * half_width_ / kRadius;
  south_ -= margin;
  north_ += margin;
  middle_ = axis_[kAxisPoints / 2].frame.up;
  reach_ = 0;
  for (const AxisPoint& p : axis_) reach_ = std::max(reach_, margin + angle(middle_, p.frame.up));
}

River::Spot River::locate(const Vector& up) const {
  const auto nearest = std::ranges::max_element(axis_, {}, [&](const AxisPoint& p) { return dot(up, p.frame.up); });
  const double s = (nearest->before + kRadius * std::asin(clip(dot(up, nearest->along), -1, 1))) / length_;
  return {rise(clip(s / kEnd, 0, 1) * clip((1 - s) / kEnd, 0, 1)),
          kRadius * std::asin(clip(dot(up, nearest->left), -1, 1)) / half_width_, nearest->along};
}

void River::add(WeatherRow& row) const {
  if (row.latitude < south_ || row.latitude > north_) return;
  const double nearer = std::cos(std::min(reach_, std::numbers::pi));
  for (std::size_t i = 0; i < row.frames.size(); ++i) {
    const LocalFrame& here = row.frames[i];
    if (dot(here.up, middle_) < nearer) continue;
    const Spot spot = locate(here.up);
    if (spot.strength == 0 || std::abs(spot.x) > kCut) continue;
    const double x2 = square(spot.x), core = spot.strength * std::exp(-x2 / 2), jet = speed_ * (1 - x2) * core;
    const double east = jet * dot(spot.along, here.east), north = jet * dot(spot.along, here.north);
    row.u850[i] += east;
    row.v850[i] += north;
    row.u1000[i] += kSurface * east;
    row.v1000[i] += kSurface * north;
    row.z1000[i] -= coriolis(row.latitude) * kSurface * speed_ * half_width_ * spot.x * core / kGravity;
    row.t1000[i] += kWarming * core;
    row.river_water[i] += water_ * core;
    if (core > 0.5) row.labels[i] = kRiver;
  }
}

}  // namespace keelson::climate
