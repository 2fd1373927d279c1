#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "apps/climate/weather/channels.hpp"
#include "apps/climate/weather/cyclone.hpp"
#include "apps/climate/weather/physics.hpp"
#include "apps/climate/weather/river.hpp"

namespace keelson::climate {
namespace {

/// A row without weather: 1000 hPa at 100 m, as warm as the tropics.
WeatherRow still_row(const Grid& grid, int row) {
  WeatherRow r;
  r.clear(grid.columns);
  r.latitude = grid.latitude(row);
  for (int i = 0; i < grid.columns; ++i) r.frames[i] = local_frame(r.latitude, grid.longitude(i));
  std::ranges::fill(r.z1000, 100.0);
  std::ranges::fill(r.t1000, 300.0);
  return r;
}

TEST(Cyclone, BlowsHardestAtItsRadius) {
  for (int number = 0; number < 50; ++number) {
    const Cyclone cyclone({7, 0}, number);
    EXPECT_GE(cyclone.radius(), 50e3);
    EXPECT_LE(cyclone.radius(), 60e3);
    EXPECT_GE(std::abs(cyclone.latitude()), 9 * kDegree);
    EXPECT_LE(std::abs(cyclone.latitude()), 32 * kDegree);
    EXPECT_GE(cyclone.strongest_wind(), 22);
    EXPECT_LE(cyclone.strongest_wind(), 62);
    double largest = 0, at = 0;
    for (double r = 1e3; r < 1500e3; r += 1e3) {
      if (cyclone.wind(r) > largest) largest = cyclone.wind(r), at = r;
      ASSERT_GE(cyclone.wind(r), 0);
      ASSERT_GE(cyclone.deficit(r), 0);
      ASSERT_LE(cyclone.deficit(r + 1e3), cyclone.deficit(r));
    }
    EXPECT_NEAR(at, cyclone.radius(), 5e3);
    // Less than without rotation of the Earth, by r |f| / 2 at most, which is 2.1 m/s here.
    EXPECT_LE(largest, cyclone.strongest_wind());
    EXPECT_GE(largest, cyclone.strongest_wind() - 2.2);
    EXPECT_EQ(cyclone.wind(1500e3), 0);
    EXPECT_EQ(cyclone.deficit(1500e3), 0);
  }
}

// In the cyclone's rotating frame: v^2 / r + f v = (1 / rho) dp / dr, away from the edge where both are tapered.
TEST(Cyclone, IsInGradientWindBalance) {
  for (int number = 0; number < 20; ++number) {
    const Cyclone cyclone({8, 0}, number);
    for (const double r : {30e3, 60e3, 100e3, 300e3, 700e3}) {
      const double v = cyclone.wind(r), f = std::abs(coriolis(cyclone.latitude()));
      const double slope = -(cyclone.deficit(r + 10) - cyclone.deficit(r - 10)) / 20;
      EXPECT_NEAR(v * v / r + f * v, slope / 1.15, 1e-3 * (v * v / r + f * v)) << r;
    }
  }
}

TEST(Cyclone, TurnsWithItsHemisphere) {
  const Grid grid{361, 720};  // half a degree
  int north = 0;
  for (int number = 0; number < 20; ++number) {
    const Cyclone cyclone({9, 0}, number);
    north += cyclone.latitude() > 0;
    const int row = static_cast<int>(std::lround((cyclone.latitude() / kDegree + 90) * 2));
    WeatherRow r = still_row(grid, row);
    cyclone.add(r);
    double turn = 0, labelled = 0, deepest = 0;
    for (int i = 0; i < grid.columns; ++i) {
      const double east = dot(cyclone.centre().east, r.frames[i].up);  // above 0 to the east of the centre
      turn += (east > 0 ? 1 : -1) * r.v850[i];
      labelled += r.labels[i] == kCyclone;
      deepest = std::min(deepest, r.z1000[i] - 100);
      if (dot(cyclone.centre().up, r.frames[i].up) < std::cos(1500e3 / kRadius)) {
        ASSERT_EQ(r.z1000[i], 100);
        ASSERT_EQ(r.v850[i], 0);
      }
    }
    EXPECT_EQ(turn > 0, cyclone.latitude() > 0) << number;
    EXPECT_GT(labelled, 3);
    EXPECT_LT(labelled, 25);
    EXPECT_LT(deepest, -50);
    EXPECT_GT(*std::ranges::max_element(r.water), 15);
    EXPECT_GT(*std::ranges::max_element(r.t500), 1);
  }
  EXPECT_GT(north, 8);
  EXPECT_LT(north, 18);
}

// A row through the centre at 11 km: one piece, as wide as winds of 12 m/s reach, with the eye.
TEST(Cyclone, IsLabelledUpToItsOuterRadius) {
  const Grid grid{1801, 3600};
  for (int number = 0; number < 5; ++number) {
    const Cyclone cyclone({9, 0}, number);
    double outer = cyclone.radius();
    while (cyclone.wind(outer) > 12) outer += 100;
    const int row = static_cast<int>(std::lround((cyclone.latitude() / kDegree + 90) * 10));
    WeatherRow r = still_row(grid, row);
    cyclone.add(r);
    for (int i = 0; i < grid.columns; ++i) {
      const double distance = kRadius * std::acos(std::min(1.0, dot(cyclone.centre().up, r.frames[i].up)));
      if (std::abs(distance - outer) > 200) {
        ASSERT_EQ(r.labels[i] == kCyclone, distance < outer) << distance;
      }
    }
  }
}

TEST(River, CarriesWaterPolewardAndEastward) {
  const Grid grid{181, 360};  // a degree
  int northern = 0;
  for (int number = 0; number < 12; ++number) {
    const River river({9, 0}, number);
    double pixels = 0, area = 0, east = 0, poleward = 0, z_pole = 0, z_equator = 0, most_low = 0, south = 0, north = 0;
    for (int row = 0; row < grid.rows; ++row) {
      WeatherRow r = still_row(grid, row);
      river.add(r);
      const double side = r.latitude < 0 ? -1 : 1, weight = std::cos(r.latitude);
      for (int i = 0; i < grid.columns; ++i) {
        const double dz = r.z1000[i] - 100, lat = std::abs(r.latitude);
        most_low = std::min(most_low, dz);
        if (dz < 0) z_pole += dz * lat, z_equator += dz;
        if (dz > 0) area += dz * lat, pixels += dz;
        if (r.labels[i] != kRiver) continue;
        (side > 0 ? north : south) += weight;
        east += r.u850[i];
        poleward += side * r.v850[i];
        ASSERT_GT(r.river_water[i], 6);   // half of the least
        ASSERT_LT(r.river_water[i], 22);  // the most
        ASSERT_GT(r.t1000[i], 301.5);
        ASSERT_NEAR(r.u1000[i], 0.6 * r.u850[i], 1e-12);
      }
    }
    EXPECT_EQ(std::min(north, south), 0) << "a river in both hemispheres";
    northern += north > 0;
    EXPECT_GT(east, 0);
    EXPECT_GT(poleward, 0);
    EXPECT_GT(z_pole / z_equator, area / pixels) << "the low is on the equatorward side";
    EXPECT_LT(most_low, -10);
    EXPECT_GT(north + south, 40);  // square degrees at the equator: 2000 km x 400 km are 65
    EXPECT_LT(north + south, 450);
  }
  EXPECT_GT(northern, 1);
  EXPECT_LT(northern, 11);
}

}  // namespace
}  // namespace keelson::climate
