#include "apps/minerva/detector/detector.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace keelson::minerva::testing {
namespace {

TEST(Detector, TargetsHaveThePublishedCodes) {
  const Detector detector;
  const int codes[] = {9, 18, 27, 44, 49};
  for (int t = 1; t <= 5; ++t) {
    const DetectorLayer& layer = detector.of_code(codes[t - 1]);
    EXPECT_EQ(layer.kind, LayerKind::target);
    EXPECT_EQ(layer.number, t);
    EXPECT_EQ(layer.segment, 2 * t - 1);
  }
  EXPECT_EQ(detector.codes(), 213 + 1);
  int last = 0, water = 0;
  double end = 0;
  for (const DetectorLayer& l : detector.layers()) {
    EXPECT_GT(l.begin, end) << "layers do not overlap";
    end = l.end;
    water += l.kind == LayerKind::water;
    if (l.kind == LayerKind::water) {
      EXPECT_EQ(l.code, 0);
      EXPECT_EQ(segment_names()[static_cast<std::size_t>(l.segment)], "3 to 4");
      continue;
    }
    EXPECT_EQ(l.code, ++last);
  }
  EXPECT_EQ(water, 1);
  EXPECT_EQ(detector.layers().back().segment, 10) << "downstream";
}

TEST(Detector, ViewsHaveThePublishedColumns) {
  const Detector detector;
  EXPECT_EQ(detector.columns(View::x), 94);
  EXPECT_EQ(detector.columns(View::u), 47);
  EXPECT_EQ(detector.columns(View::v), 47);
  EXPECT_EQ(detector.of_column(View::u, 0).code, 1);
  EXPECT_EQ(detector.of_column(View::x, 0).code, 2);
  EXPECT_EQ(detector.of_column(View::v, 0).code, 3);
  for (int c = 0; c < 94; ++c) EXPECT_EQ(detector.of_column(View::x, c).number, 2);
  // Module 113 has an X plane too, but no image shows the hadron calorimeter.
  EXPECT_EQ(detector.of_column(View::x, 93).module, 94);
}

TEST(Detector, PlanesHaveTheirPitch) {
  const Detector detector;
  const auto& layers = detector.layers();
  for (std::size_t i = 1; i < layers.size(); ++i) {
    if (layers[i].kind != LayerKind::plane || layers[i - 1].kind != LayerKind::plane) continue;
    EXPECT_NEAR(layers[i].begin - layers[i - 1].begin, plane_pitch, 1e-9);
  }
  EXPECT_NEAR(layers[0].end - layers[0].begin, plane_thickness, 1e-9);
}

TEST(Detector, CoordinatesAreTurnedBySixtyDegrees) {
  for (const double angle : {0.0, 0.4, 2.0, 4.5}) {
    const double x = 100 * std::cos(angle), y = 100 * std::sin(angle);
    EXPECT_NEAR(coordinate(View::x, x, y), 100 * std::cos(angle), 1e-9);
    EXPECT_NEAR(coordinate(View::u, x, y), 100 * std::cos(angle - std::acos(-1) / 3), 1e-9);
    EXPECT_NEAR(coordinate(View::v, x, y), 100 * std::cos(angle + std::acos(-1) / 3), 1e-9);
  }
  EXPECT_TRUE(is_in_hexagon(849, 0, 850));
  EXPECT_FALSE(is_in_hexagon(851, 0, 850));
  EXPECT_TRUE(is_in_hexagon(0, 980, 850)) << "a corner of the hexagon";
  EXPECT_FALSE(is_in_hexagon(0, 982, 850));
}

TEST(Detector, TargetsAreMadeOfTheirMaterials) {
  const Detector detector, empty(false);
  const DetectorLayer& third = detector.of_code(27);
  std::multiset<double> densities;
  for (int sector = 0; sector < 6; ++sector) {
    const double angle = (sector + 0.5) * std::acos(-1) / 3;
    densities.insert(detector.material(third, 500 * std::cos(angle), 500 * std::sin(angle)).density);
  }
  EXPECT_EQ(densities.count(1.74), 3u) << "carbon";
  EXPECT_EQ(densities.count(7.83), 2u) << "iron";
  EXPECT_EQ(densities.count(11.29), 1u) << "lead";
  EXPECT_NEAR(detector.material(detector.of_code(9), -100, 0).grams(), 2.57 * 7.83, 1e-9);
  EXPECT_NEAR(detector.material(detector.of_code(44), 0, 0).grams(), 0.8 * 11.29, 1e-9);
  EXPECT_NEAR(detector.material(detector.of_code(1), 0, 0).grams(), 1.7 * 1.05, 1e-9);
  for (const DetectorLayer& l : detector.layers())
    if (l.kind == LayerKind::water) {
      EXPECT_NEAR(detector.material(l, 0, 0).grams(), 17, 1e-9);
      EXPECT_EQ(empty.material(l, 0, 0).grams(), 0);
    }
}

}  // namespace
}  // namespace keelson::minerva::testing
