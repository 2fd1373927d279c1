#include "apps/climate/weather/snapshot.hpp"

#include <algorithm>
#include <cmath>

#include "apps/climate/weather/parallel.hpp"
#include "apps/climate/weather/physics.hpp"

namespace keelson::climate {
namespace {

constexpr double kLowestLayer = 0.99256;  // its pressure, relative to that at the surface
constexpr double kSlowdown = 0.75,
                 kTurn = 18 * kDegree;    // slowdown and turn of the wind in the lowest layer, by friction
constexpr double kEquator = 5 * kDegree;  // within this latitude friction turns the wind less

/// Rain of moist air (m/s) from the relative humidity of the column: Bretherton, Peters and Back, J. Climate 17 (2004)
/// 1517.
double rain_rate(double humidity) { return std::min(120.0, std::exp(15.6 * (humidity - 0.603))) * 1e-3 / 86400; }

void fill_channels(const WeatherRow& row, float* data, float* labels) {
  const double turn = kTurn * clip(row.latitude / kEquator, -1, 1), sine = std::sin(turn), cosine = std::cos(turn);
  for (std::size_t i = 0; i < row.water.size(); ++i, data += kChannels) {
    const double t1000 = row.t1000[i], z1000 = row.z1000[i], near_surface = t1000 - 1;
    const double pressure = sea_level_pressure(z1000, t1000);
    const auto set = [&](Channel c, double value) { data[c] = static_cast<float>(value); };
    set(TMQ, row.water[i]);
    set(U850, row.u850[i]);
    set(V850, row.v850[i]);
    set(UBOT, kSlowdown * (cosine * row.u1000[i] - sine * row.v1000[i]));
    set(VBOT, kSlowdown * (sine * row.u1000[i] + cosine * row.v1000[i]));
    set(QREFHT, 0.8 * saturation_humidity(near_surface, pressure));
    set(PS, pressure);  // there are no mountains
    set(PSL, pressure);
    set(T200, row.t200[i]);
    set(T500, row.t500[i]);
    set(PRECT, rain_rate(row.water[i] / row.saturation[i]) + row.rain[i]);
    set(TS, near_surface + 1);
    set(TREFHT, near_surface);
    set(Z1000, z1000);
    set(Z200, row.z200[i]);
    set(ZBOT, kRd * t1000 / kGravity * -std::log(kLowestLayer));
    labels[i] = row.labels[i];
  }
}

ChannelSums sums_of(const float* data, std::size_t points) {
  ChannelSums s;
  std::copy_n(data, kChannels, s.least.begin());
  std::copy_n(data, kChannels, s.most.begin());
  for (std::size_t i = 0; i < points; ++i, data += kChannels) {
    for (int c = 0; c < kChannels; ++c) {
      const double x = data[c];
      s.sum[c] += x;
      s.squares[c] += x * x;
      s.least[c] = std::min(s.least[c], data[c]);
      s.most[c] = std::max(s.most[c], data[c]);
    }
  }
  return s;
}

void merge(ChannelSums& into, const ChannelSums& s) {
  for (int c = 0; c < kChannels; ++c) {
    into.sum[c] += s.sum[c];
    into.squares[c] += s.squares[c];
    into.least[c] = std::min(into.least[c], s.least[c]);
    into.most[c] = std::max(into.most[c], s.most[c]);
  }
}

/// The sums of all rows, added up in the order of rows.
ChannelSums total(const std::vector<ChannelSums>& rows) {
  ChannelSums sums = rows.front();
  for (std::size_t r = 1; r < rows.size(); ++r) merge(sums, rows[r]);
  return sums;
}

void add_noise(const SnapshotKey& key, const std::array<float, kChannels>& sigma, std::uint64_t first_point,
               std::size_t points, float* data) {
  for (std::size_t i = 0; i < points; ++i, data += kChannels) {
    for (int c = 0; c < kChannels; c += 4) {
      const auto bits = random_block(key, RandomStream::kNoise, (first_point + i) * (kChannels / 4) + c / 4);
      const auto [a, b] = normal_pair_f32(bits[0], bits[1]);
      const auto [d, e] = normal_pair_f32(bits[2], bits[3]);
      const float normal[] = {a, b, d, e};
      for (int k = 0; k < 4; ++k) data[c + k] += sigma[c + k] * normal[k];
    }
    data[PRECT] = std::max(data[PRECT], 0.0f);
  }
}

}  // namespace

void make_snapshot(const Weather& weather, const SnapshotKey& key, double noise, int threads, Snapshot& dst) {
  const Grid grid = dst.grid = weather.grid();
  const auto columns = static_cast<std::size_t>(grid.columns), points = static_cast<std::size_t>(grid.points());
  dst.data.resize(points * kChannels);
  dst.labels.resize(points);
  dst.cyclones = static_cast<int>(weather.cyclones().size());
  dst.rivers = static_cast<int>(weather.rivers().size());
  const auto data_of = [&](int row) { return &dst.data[static_cast<std::size_t>(row) * columns * kChannels]; };

  std::vector<ChannelSums> sums(static_cast<std::size_t>(grid.rows));
  std::vector<WeatherRow> rows(static_cast<std::size_t>(threads));
  std::vector<Weather::Workspace> work(static_cast<std::size_t>(threads));
  for_each_row(threads, grid.rows, [&](int thread, int row) {
    weather.make_row(row, rows[thread], work[thread]);
    fill_channels(rows[thread], data_of(row), &dst.labels[static_cast<std::size_t>(row) * columns]);
    sums[row] = sums_of(data_of(row), columns);
  });
  if (noise > 0) {
    const ChannelSums all = total(sums);
    std::array<float, kChannels> sigma{};
    for (int c = 0; c < kChannels; ++c) {
      const double n = static_cast<double>(points), mean = all.sum[c] / n;
      sigma[c] = static_cast<float>(noise * std::sqrt(std::max(0.0, all.squares[c] / n - mean * mean)));
    }
    for_each_row(threads, grid.rows, [&](int, int row) {
      add_noise(key, sigma, static_cast<std::uint64_t>(row) * columns, columns, data_of(row));
      sums[row] = sums_of(data_of(row), columns);
    });
  }
  dst.sums = total(sums);
  dst.pixels = {};
  for (const float label : dst.labels) ++dst.pixels[static_cast<std::size_t>(label)];
}

}  // namespace keelson::climate
