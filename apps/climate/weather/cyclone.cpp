#include "apps/climate/weather/cyclone.hpp"

#include <algorithm>
#include <cmath>

#include "apps/climate/weather/channels.hpp"
#include "apps/climate/weather/physics.hpp"

namespace keelson::climate {
namespace {

constexpr double kOuter = 1500e3, kTaper = 700e3;    // m: the edge, and the distance over which the cyclone fades
constexpr double kDensity = 1.15;                    // of air, kg/m3
constexpr double kGale = 12;                         // m/s
constexpr double kWater = 18, kWaterRadius = 250e3;  // kg/m2, m

double taper(double r) { return rise((kOuter - r) / kTaper); }

}  // namespace

Cyclone::Cyclone(const SnapshotKey& key, int number) {
  Draws draws(key, RandomStream::kCyclones, static_cast<std::uint64_t>(number) + 1);
  const double hemisphere = draws.uniform(0, 1) < 0.65 ? 1 : -1;
  const double degrees = draws.uniform(9, 32);
  latitude_ = hemisphere * degrees * kDegree;
  centre_ = local_frame(latitude_, draws.uniform(0, 2 * std::numbers::pi));
  strongest_ = draws.uniform(22, 62);
  radius_ = std::max(50e3, 46.4e3 * std::exp(-0.0155 * strongest_ + 0.0169 * degrees));
  shape_ = clip(1 + strongest_ / 70, 1, 2.2);
  drop_ = square(strongest_) * kDensity * std::numbers::e / shape_;
}

double Cyclone::profile(double r) const { return std::pow(radius_ / std::max(r, 1.0), shape_); }

double Cyclone::wind(double r) const {
  const double p = profile(r), turn = r * std::abs(coriolis(latitude_)) / 2;
  return (std::sqrt(shape_ * drop_ / kDensity * p * std::exp(-p) + square(turn)) - turn) * taper(r);
}

double Cyclone::deficit(double r) const { return drop_ * -std::expm1(-profile(r)) * taper(r); }

double Cyclone::rain(double r) const {
  const double most = strongest_ / 50 * 10e-3 / 3600;  // 10 mm/h at 50 m/s
  return most * (r < radius_ ? 0.4 + 0.6 * r / radius_ : std::exp(-(r - radius_) / 120e3)) * taper(r);
}

void Cyclone::add(WeatherRow& row) const {
  if (std::abs(row.latitude - latitude_) * kRadius > kOuter) return;
  const double nearer = std::cos(kOuter / kRadius), layers = std::log(2.0) / 2 + 0.75 * std::log(2.5);
  for (std::size_t i = 0; i < row.frames.size(); ++i) {
    const LocalFrame& here = row.frames[i];
    if (dot(here.up, centre_.up) < nearer) continue;
    const Vector across = cross(centre_.up, here.up);  // anticlockwise
    const double r = kRadius * std::asin(std::min(1.0, std::sqrt(dot(across, across)))), v = wind(r);
    const Vector turn = unit(across);
    const double blow = 0.95 * (latitude_ < 0 ? -v : v);
    const double east = blow * dot(turn, here.east), north = blow * dot(turn, here.north);
    row.u850[i] += east;
    row.v850[i] += north;
    row.u1000[i] += east;
    row.v1000[i] += north;

    const double pressure = sea_level_pressure(row.z1000[i], row.t1000[i]);
    const double sink = kRd * row.t1000[i] / kGravity * std::log1p(-deficit(r) / pressure);  // of 1000 hPa, in m
    row.z1000[i] += sink;
    const double warming = kGravity * -1.1 * sink / kRd;  // times ln 5: the 200 hPa surface rises by 0.1 of that
    row.t500[i] += warming / layers;
    row.t200[i] += warming / layers / 2;
    row.water[i] += kWater * std::exp(-square(r / kWaterRadius));
    row.rain[i] += rain(r);
    if (v > kGale || r < radius_) row.labels[i] = kCyclone;  // also the calm eye
  }
}

}  // namespace keelson::climate
