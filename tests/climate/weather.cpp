#include "apps/climate/weather/weather.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "apps/climate/weather/channels.hpp"
#include "apps/climate/weather/physics.hpp"

namespace keelson::climate {
namespace {

template <class Visit>
void for_each_row_of(const Weather& weather, Visit visit) {
  WeatherRow row;
  Weather::Workspace work;
  for (int r = 0; r < weather.grid().rows; ++r) {
    weather.make_row(r, row, work);
    visit(r, row);
  }
}

TEST(Weather, IsHydrostaticEverywhere) {
  for (std::uint64_t sample = 0; sample < 4; ++sample) {
    const Weather weather({96, 144}, {1, sample}, {4, 6});
    for_each_row_of(weather, [](int, const WeatherRow& row) {
      const double a = kRd / kGravity;
      for (std::size_t i = 0; i < row.z1000.size(); ++i) {
        const double layer =
            a * (std::log(2.0) * (row.t1000[i] + row.t500[i]) / 2 + std::log(2.5) * (row.t500[i] + row.t200[i]) / 2);
        ASSERT_NEAR(row.z200[i] - row.z1000[i], layer, 1e-10);
      }
    });
  }
}

// Poleward of 30 degrees the temperature at 1000 hPa shows the mean anomaly of the layer, and 500 and 200 hPa share the
// rest so that the layer is as thick as the flow above and below needs.
TEST(Weather, HasLayersAsThickAsTheirMeanTemperature) {
  double largest = 0;
  for_each_row_of(Weather({96, 144}, {1, 3}, {0, 0}), [&](int, const WeatherRow& row) {
    if (std::abs(row.latitude) < 30 * kDegree) return;
    const auto zonal = [&](double pressure) { return zonal_temperature(row.latitude, pressure); };
    const double t1000 = std::min(302.0, zonal(1e5)), mean = thickness(t1000, zonal(5e4), zonal(2e4));
    for (std::size_t i = 0; i < row.z1000.size(); ++i) {
      const double anomaly = row.t1000[i] - t1000;
      largest = std::max(largest, std::abs(anomaly));
      ASSERT_NEAR(row.z200[i] - row.z1000[i] - mean, kRd * std::log(5.0) / kGravity * anomaly, 1e-9);
    }
  });
  EXPECT_GT(largest, 3);
  EXPECT_LE(largest, 18);
}

TEST(Weather, HasTheKineticEnergyOfTheSpectrum) {
  double energy = 0, area = 0;
  for (std::uint64_t sample = 0; sample < 20; ++sample) {
    const Weather with({96, 144}, {1, sample}, {0, 0});
    std::vector<double> zonal(96);
    for_each_row_of(with, [&](int, const WeatherRow& row) {
      // Without the zonal mean flow, which is the same in all.
      const double degrees = row.latitude / kDegree;
      const double mean = 9 * square(std::sin(2 * row.latitude)) * std::exp(-square((std::abs(degrees) - 45) / 25)) -
                          6 * std::exp(-square(degrees / 14));
      for (std::size_t i = 0; i < row.u850.size(); ++i) {
        energy += (square(row.u850[i] - mean) + square(row.v850[i])) / 2 * std::cos(row.latitude);
        area += std::cos(row.latitude);
      }
    });
  }
  EXPECT_NEAR(energy / area, 24.5, 2.5);
}

// Linear balance is nearly geostrophic in the middle latitudes: u = -(g / f) dz / dy.
TEST(Weather, IsNearlyGeostrophicAt45North) {
  const Grid grid{193, 288};
  double uu = 0, gg = 0, ug = 0;
  for (std::uint64_t sample = 0; sample < 5; ++sample) {
    const Weather weather(grid, {3, sample}, {0, 0});
    WeatherRow below, here, above;
    Weather::Workspace work;
    const int row = 144;
    weather.make_row(row - 1, below, work);
    weather.make_row(row, here, work);
    weather.make_row(row + 1, above, work);
    EXPECT_NEAR(here.latitude / kDegree, 45, 1e-9);
    double mean_u = 0, mean_g = 0;
    std::vector<double> g(288);
    for (std::size_t i = 0; i < g.size(); ++i) {
      g[i] = -kGravity / coriolis(here.latitude) * (above.z1000[i] - below.z1000[i]) /
             (kRadius * (above.latitude - below.latitude));
      mean_u += here.u1000[i] / 288;
      mean_g += g[i] / 288;
    }
    for (std::size_t i = 0; i < g.size(); ++i) {
      uu += square(here.u1000[i] - mean_u);
      gg += square(g[i] - mean_g);
      ug += (here.u1000[i] - mean_u) * (g[i] - mean_g);
    }
  }
  EXPECT_GT(ug / std::sqrt(uu * gg), 0.94);
}

TEST(Weather, IsTheSameOnACoarseAndAFineGrid) {
  const SnapshotKey key{5, 1};
  const Weather coarse({97, 144}, key, {3, 5}), fine({193, 288}, key, {3, 5});
  ASSERT_EQ(coarse.rivers().size(), fine.rivers().size());
  ASSERT_EQ(coarse.cyclones().size(), fine.cyclones().size());
  WeatherRow a, b;
  Weather::Workspace work_a, work_b;
  double difference = 0, spread = 0;
  int labels = 0, same = 0;
  for (int r = 0; r < 97; ++r) {
    coarse.make_row(r, a, work_a);
    fine.make_row(2 * r, b, work_b);
    for (std::size_t i = 0; i < 144; ++i) {
      labels += b.labels[2 * i] != 0;
      same += b.labels[2 * i] != 0 && a.labels[i] == b.labels[2 * i];
      difference += square(a.z1000[i] - b.z1000[2 * i]);
      spread += square(b.z1000[2 * i] - 105);
    }
  }
  EXPECT_GT(labels, 20);
  EXPECT_EQ(same, labels);
  EXPECT_LT(difference, 0.01 * spread);
}

// The last column lies beside the first: the step between them is like that between any two neighbours.
TEST(Weather, IsPeriodicInLongitude) {
  double seam = 0, inside = 0;
  const Grid grid{96, 144};
  for (std::uint64_t sample = 0; sample < 10; ++sample) {
    for_each_row_of(Weather(grid, {2, sample}, {1.7, 4.3}), [&](int, const WeatherRow& row) {
      seam += square(row.u850[0] - row.u850[143]);
      for (std::size_t i = 1; i < 144; ++i) inside += square(row.u850[i] - row.u850[i - 1]) / 143;
    });
  }
  EXPECT_LT(seam / inside, 2);
  EXPECT_GT(seam / inside, 0.5);
}

TEST(Weather, HasRiversThatCarryAsMuchAsObserved) {
  std::vector<double> transport, water;
  double column = 0, area = 0;
  for (std::uint64_t sample = 0; sample < 10; ++sample) {
    for_each_row_of(Weather({96, 144}, {4, sample}, {0, 4.3}), [&](int, const WeatherRow& row) {
      for (std::size_t i = 0; i < row.water.size(); ++i) {
        column += row.water[i] * std::cos(row.latitude);
        area += std::cos(row.latitude);
        if (row.labels[i] != kRiver) continue;
        water.push_back(row.water[i]);
        transport.push_back(0.7 * row.water[i] * std::hypot(row.u850[i], row.v850[i]));
      }
    });
  }
  const auto median = [](std::vector<double> v) {
    std::ranges::nth_element(v, v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2));
    return v[v.size() / 2];
  };
  EXPECT_NEAR(column / area, 21.5, 1.5);  // kg/m2; about 25 are observed
  EXPECT_NEAR(median(water), 33, 4);
  EXPECT_NEAR(median(transport), 420, 100);  // kg/m/s
  const auto strong = static_cast<double>(std::ranges::count_if(transport, [](double t) { return t > 250; }));
  EXPECT_NEAR(strong / static_cast<double>(transport.size()), 0.74, 0.1);
}

// DeepCAM's shares: 0.046 % cyclones, 1.33 % rivers. Per object: 2.7e-4 and 3.1e-3.
TEST(Weather, HasTheClassSharesOfThePublicData) {
  double pixels[kClasses] = {}, cyclones = 0, rivers = 0;
  const int samples = 400;
  const Grid grid{96, 144};
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    const Weather weather(grid, {1, sample}, {});
    cyclones += static_cast<double>(weather.cyclones().size());
    rivers += static_cast<double>(weather.rivers().size());
    for_each_row_of(weather, [&](int, const WeatherRow& row) {
      for (const auto label : row.labels) ++pixels[label];
    });
  }
  const double all = samples * static_cast<double>(grid.points());
  EXPECT_NEAR(pixels[kCyclone] / all, 4.6e-4, 0.46e-4);
  EXPECT_NEAR(pixels[kRiver] / all, 1.33e-2, 0.133e-2);
  EXPECT_NEAR(cyclones / samples, 1.7, 0.2);
  EXPECT_NEAR(rivers / samples, 4.3, 0.3);
}

}  // namespace
}  // namespace keelson::climate
