#include "apps/climate/weather/weather.hpp"

#include <algorithm>
#include <cmath>

#include "apps/climate/weather/physics.hpp"

namespace keelson::climate {
namespace {

constexpr double kSpeed = 7;  // m/s: the root of twice the random flow's kinetic energy
// The flow at other levels, made from the streamfunctions A (850 hPa) and B (above).
constexpr double kAt1000 = 0.8, kAt200 = 1.6, kShareA = 0.75, kShareB = 0.66;

double zonal_wind_850(double latitude) {
  const double degrees = latitude / kDegree;
  return 9 * square(std::sin(2 * latitude)) * std::exp(-square((std::abs(degrees) - 45) / 25)) -
         6 * std::exp(-square(degrees / 14));
}

constexpr double kZonal1000 = 0.55;  // share of the zonal wind at 850 hPa

/// Column relative humidity without the random part: moist tropics, dry subtropics.
double zonal_humidity(double latitude) {
  const double degrees = latitude / kDegree;
  return 0.56 + 0.26 * std::exp(-square((degrees - 6) / 8)) - 0.14 * std::exp(-square((std::abs(degrees) - 24) / 9));
}

Harmonics draw_flow(const SnapshotKey& key, RandomStream use, int top) {
  const auto energy = kinetic_energy(top, kSpeed);
  return draw_harmonics(key, use, top,
                        [&](int n) { return 2 * square(kRadius) * energy[n] / (n * (n + 1.0) * (2 * n + 1)); });
}

/// A function with variance 1 and the spectrum of the flow.
Harmonics draw_scalar(const SnapshotKey& key, int top) {
  const auto energy = kinetic_energy(top, std::sqrt(2.0));  // the sum is 1
  return draw_harmonics(key, RandomStream::kMoisture, top, [&](int n) { return energy[n] / (2 * n + 1); });
}

}  // namespace

Weather::Weather(const Grid& grid, const SnapshotKey& key, const Rates& rates) : grid_((check(grid), grid)) {
  const int top = largest_degree(grid);
  const Harmonics a = draw_flow(key, RandomStream::kFlow, top), b = draw_flow(key, RandomStream::kUpperFlow, top);
  const Harmonics phi_a = linear_balance(a), phi_b = linear_balance(b), eta = draw_scalar(key, top);
  synthesis_ = std::make_unique<Synthesis>(grid, a, std::array{&phi_a, &phi_b, &eta});
  zonal_heights();
  const int rivers = Draws(key, RandomStream::kRivers, 0).poisson(rates.rivers);
  for (int i = 0; i < rivers; ++i) rivers_.emplace_back(key, i);
  const int cyclones = Draws(key, RandomStream::kCyclones, 0).poisson(rates.cyclones);
  for (int i = 0; i < cyclones; ++i) cyclones_.emplace_back(key, i);
}

/// Heights in gradient-wind balance with the zonal wind: d Phi / d phi = -(f + u tan(phi) / a) u a. The mean over the
/// sphere is 105 m.
void Weather::zonal_heights() {
  constexpr int kSteps = 2048;  // from pole to pole, for any grid
  std::vector<double> z(kSteps + 1);
  const double step = std::numbers::pi / kSteps;
  double sum = 0;
  for (int i = 0; i < kSteps; ++i) {
    const double latitude = (i + 0.5) * step - std::numbers::pi / 2, u = kZonal1000 * zonal_wind_850(latitude);
    z[i + 1] = z[i] - (coriolis(latitude) * kRadius + u * std::tan(latitude)) * u * step / kGravity;
    sum += (z[i] + z[i + 1]) / 2 * std::cos(latitude) * step / 2;
  }
  for (int row = 0; row < grid_.rows; ++row) {
    const double at = row / (grid_.rows - 1.0) * kSteps;
    const int i = std::min(static_cast<int>(at), kSteps - 1);
    zonal_z1000_.push_back(z[i] + (at - i) * (z[i + 1] - z[i]) - sum + 105);
  }
}

void Weather::background(int row, WeatherRow& dst, Workspace& work) const {
  synthesis_->make(row, work.flow, work.scratch);
  const auto& [u, v, phi_a, phi_b, eta] = work.flow;
  const double latitude = dst.latitude, zonal = zonal_wind_850(latitude);
  const double zonal_t1000 = std::min(302.0, zonal_temperature(latitude, 1e5));
  const double zonal_t500 = zonal_temperature(latitude, 5e4), zonal_t200 = zonal_temperature(latitude, 2e4);
  const double ln2 = std::log(2.0), ln25 = std::log(2.5), ln5 = std::log(5.0);
  for (std::size_t i = 0; i < u.size(); ++i) {
    dst.u850[i] = zonal + u[i];
    dst.v850[i] = v[i];
    dst.u1000[i] = kZonal1000 * zonal + kAt1000 * u[i];
    dst.v1000[i] = kAt1000 * v[i];
    const double phi1000 = kAt1000 * phi_a[i], phi200 = kAt200 * (kShareA * phi_a[i] + kShareB * phi_b[i]);
    dst.z1000[i] = zonal_z1000_[static_cast<std::size_t>(row)] + phi1000 / kGravity;
    // The mean temperature anomaly of the layer between the two surfaces, and its distribution over the levels.
    const double layer = clip((phi200 - phi1000) / (kRd * ln5), -18, 18);
    const double t1000 = layer * std::min(std::abs(latitude) / (30 * kDegree), 1.0), t200 = -0.5 * layer;
    dst.t1000[i] = zonal_t1000 + t1000;
    dst.t200[i] = zonal_t200 + t200;
    dst.t500[i] = zonal_t500 + 2 * layer - (ln2 * t1000 + ln25 * t200) / ln5;
  }
}

/// Column water from relative humidity and saturation, plus the water of rivers. Specific humidity falls as p^3.5.
void Weather::moisten(WeatherRow& dst, const std::vector<double>& eta) const {
  for (std::size_t i = 0; i < eta.size(); ++i) {
    const double pressure = sea_level_pressure(dst.z1000[i], dst.t1000[i]);
    const double saturation = saturation_humidity(dst.t1000[i], pressure) * pressure / (kGravity * 4.5);
    const double air = clip(zonal_humidity(dst.latitude) + 0.09 * eta[i], 0.15, 0.93) * saturation;
    dst.saturation[i] = saturation;
    dst.water[i] = std::min(air + dst.river_water[i], std::max(air, 0.98 * saturation + 8));
  }
}

void Weather::make_row(int row, WeatherRow& dst, Workspace& work) const {
  dst.clear(grid_.columns);
  dst.latitude = grid_.latitude(row);
  for (int i = 0; i < grid_.columns; ++i) dst.frames[i] = local_frame(dst.latitude, grid_.longitude(i));
  background(row, dst, work);
  for (const River& river : rivers_) river.add(dst);
  moisten(dst, work.flow[4]);
  for (const Cyclone& cyclone : cyclones_) cyclone.add(dst);
  for (std::size_t i = 0; i < dst.z200.size(); ++i)
    dst.z200[i] = dst.z1000[i] + thickness(dst.t1000[i], dst.t500[i], dst.t200[i]);
}

}  // namespace keelson::climate
