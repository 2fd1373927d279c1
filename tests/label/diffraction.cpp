#include "apps/label/diffraction/diffraction.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

namespace keelson::label::testing {
namespace {

/// From a diffraction table of ice Ih.
TEST(Diffraction, LinesOfIceAreThoseOfItsLattice) {
  const double d[] = {3.907, 3.673, 3.449, 2.676, 2.256, 2.075, 1.953, 1.922, 1.888, 1.725, 1.527};
  const double q[] = {1.608, 1.711, 1.822, 2.348, 2.786, 3.028, 3.217, 3.269, 3.328, 3.643, 4.115};
  const double brightness[] = {100, 55, 58, 26, 51, 44, 6, 24, 5, 3, 9};
  const auto& lines = ice_lines();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_NEAR(lines[i].d(), d[i], 6e-4) << i;
    EXPECT_NEAR(lines[i].q(), q[i], 6e-4) << i;
    EXPECT_EQ(lines[i].brightness, brightness[i]);
  }
}

TEST(Diffraction, DetectorReachesTheMomentumTransferOfItsEdgeAndCorners) {
  const Detector d;
  EXPECT_EQ(d.q_of(0), 0);
  EXPECT_NEAR(d.q_of(110), 3.8, 0.05);
  EXPECT_NEAR(d.q_of(110 * std::numbers::sqrt2), 4.5, 0.05);
}

TEST(Diffraction, WaterHasTwoPeaksThatColdMovesApart) {
  const auto peak = [](double from, double to, double cold) {
    double best = from;
    for (double q = from; q < to; q += 0.001)
      if (water_factor(q, cold) > water_factor(best, cold)) best = q;
    return best;
  };
  EXPECT_NEAR(peak(1.5, 2.4, 0), 2.0, 0.03);
  EXPECT_NEAR(peak(1.5, 2.4, 1), 1.9, 0.03);
  EXPECT_NEAR(peak(2.6, 3.4, 0), 3.0, 0.03);
  EXPECT_NEAR(peak(2.6, 3.4, 1), 3.05, 0.03);
  EXPECT_GT(water_factor(3.05, 1), water_factor(3.0, 0));
}

TEST(Diffraction, LightIsPolarizedAlongX) {
  const double right = std::numbers::pi / 2;
  EXPECT_NEAR(polarization_factor(right, 0), 0.01, 1e-12);
  EXPECT_NEAR(polarization_factor(right, right), 0.99, 1e-12);
  EXPECT_EQ(polarization_factor(0, 0.3), 1);
}

TEST(Diffraction, ShotsAreFunctionsOfSeedSetAndIndex) {
  ShotOptions o;
  o.detector.size = 32;
  const Shot a = make_shot(o, 1, "pool", 5), b = make_shot(o, 1, "pool", 5), c = make_shot(o, 1, "test", 5);
  ASSERT_EQ(a.counts.size(), 1024u);
  const auto bits = [](const Shot& shot) {  // dead pixels are NaN
    std::vector<std::uint32_t> all;
    for (const float count : shot.counts) all.push_back(std::bit_cast<std::uint32_t>(count));
    return all;
  };
  EXPECT_EQ(bits(a), bits(b));
  EXPECT_NE(bits(a), bits(c));
  int ice = 0;
  for (int i = 0; i < 60; ++i) {
    const Shot s = make_shot({.detector = {.size = 16}}, 3, "pool", i);
    ice += s.ice ? 1 : 0;
    EXPECT_EQ(s.ice, s.ice_part > 0);
    EXPECT_TRUE(!s.ice || s.ice_part >= 0.08);
  }
  EXPECT_NEAR(ice, 30, 15);
}

/// Mean counts of the pixels near each q, over shots.
std::vector<double> near_q(const ShotOptions& o, const std::vector<double>& places) {
  std::vector<double> sum(places.size()), count(places.size());
  for (int i = 0; i < 12; ++i) {
    const Shot s = make_shot(o, 2, "pool", i);
    for (std::int64_t y = 0; y < o.detector.size; ++y)
      for (std::int64_t x = 0; x < o.detector.size; ++x) {
        const double pixel = 2 * o.detector.half_width / static_cast<double>(o.detector.size),
                     middle = static_cast<double>(o.detector.size) / 2 - 0.5;
        const double r = pixel * std::hypot(static_cast<double>(x) - middle, static_cast<double>(y) - middle);
        const float v = s.counts[static_cast<std::size_t>(y * o.detector.size + x)];
        for (std::size_t k = 0; k < places.size(); ++k) {
          if (std::abs(o.detector.q_of(r) - places[k]) > 0.03 || !std::isfinite(v)) continue;
          sum[k] += static_cast<double>(v);
          count[k] += 1;
        }
      }
  }
  for (std::size_t k = 0; k < places.size(); ++k) sum[k] /= count[k];
  return sum;
}

TEST(Diffraction, IceIsBrightAtItsLinesAndWaterIsNot) {
  ShotOptions water, ice;
  water.ice = 0;
  ice.ice = 1;
  ice.least_ice = 0.3;
  const auto w = near_q(water, {1.608, 1.45, 2.786, 2.6}), i = near_q(ice, {1.608, 1.45, 2.786, 2.6});
  EXPECT_NEAR(w[0] / w[1], 1.7, 0.25);
  EXPECT_GT(i[0] / i[1], 1.3 * w[0] / w[1]);
  EXPECT_GT(i[2] / i[3], w[2] / w[3]);
}

TEST(Diffraction, SmallPixelsSeeFewerPhotonsAndDeadOnesNone) {
  ShotOptions fine, coarse;
  coarse.detector.size = 64;
  EXPECT_NEAR(near_q(coarse, {2.0})[0] / near_q(fine, {2.0})[0], 4, 0.4);
  const Shot s = make_shot(fine, 2, "pool", 0);
  EXPECT_TRUE(std::isnan(s.counts[64 * 128 + 64])) << "behind the beam stop";
  EXPECT_TRUE(std::isnan(s.counts[64 * 128 + 5])) << "in the gap";
}

TEST(Diffraction, EmptyShotsShowTheBackgroundAndTwoDropletsMore) {
  ShotOptions one, none, two;
  one.ice = two.ice = 0;
  none.empty = two.two_droplets = 1;
  const double background = near_q(none, {2.0})[0];
  EXPECT_GT(background, 0.5);
  EXPECT_LT(background, 3);
  EXPECT_GT(near_q(two, {2.0})[0], 1.5 * near_q(one, {2.0})[0]);
  const Shot empty = make_shot(none, 2, "pool", 0), pair = make_shot(two, 2, "pool", 0);
  EXPECT_EQ(empty.droplets, 0);
  EXPECT_FALSE(empty.ice);
  EXPECT_EQ(pair.droplets, 2);
}

TEST(Diffraction, DropletsComeInTheGivenParts) {
  ShotOptions o;
  o.detector.size = 16;
  o.empty = 0.2;
  o.two_droplets = 0.3;
  int count[3] = {}, ice[3] = {};
  constexpr int shots = 200;
  for (int i = 0; i < shots; ++i) {
    const Shot s = make_shot(o, 3, "pool", i);
    ++count[s.droplets];
    ice[s.droplets] += s.ice ? 1 : 0;
    EXPECT_EQ(s.ice, s.ice_part > 0);
  }
  EXPECT_NEAR(count[0], 40, 20);
  EXPECT_NEAR(count[2], 60, 25);
  EXPECT_EQ(ice[0], 0);
  EXPECT_GT(ice[2] * count[1], ice[1] * count[2]) << "two droplets have two chances to freeze";
}

}  // namespace
}  // namespace keelson::label::testing
