#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "apps/climate/heuristics/labels.hpp"
#include "apps/climate/heuristics/percentile.hpp"
#include "apps/climate/weather/generate.hpp"
#include "engine/train/metrics/intersection_over_union.hpp"

namespace keelson::climate {
namespace {

TEST(HeuristicComponents, EdgesCornersAndTheLastColumn) {
  const std::vector<std::uint8_t> mask{
      1, 0, 0, 0, 1,  //
      0, 1, 0, 0, 0,  //
      0, 1, 0, 0, 1,
  };
  const auto sizes = [&](Neighbours n, bool wrap) {
    std::vector<std::size_t> s;
    for (const auto& c : connected_components(mask, 3, 5, n, wrap)) s.push_back(c.points.size());
    return s;
  };
  EXPECT_EQ(sizes(Neighbours::four, false), (std::vector<std::size_t>{1, 1, 2, 1}));
  EXPECT_EQ(sizes(Neighbours::eight, false), (std::vector<std::size_t>{3, 1, 1}));
  EXPECT_EQ(sizes(Neighbours::four, true), (std::vector<std::size_t>{2, 2, 1}));
  const auto wrapped = connected_components(mask, 3, 5, Neighbours::eight, true)[0];
  EXPECT_EQ(wrapped.points.size(), 4u);
  EXPECT_EQ(wrapped.last_row, 2);
  EXPECT_EQ(wrapped.first_column, -1);
  EXPECT_EQ(wrapped.last_column, 1);
  auto largest = mask;
  keep_largest(largest, 3, 5, Neighbours::four);
  EXPECT_EQ(largest, (std::vector<std::uint8_t>{0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0}));
}

/// As numpy.percentile.
TEST(HeuristicPercentile, IsLinearBetweenValues) {
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 93), 3.79);
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 100), 4);
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 0), 1);
  EXPECT_DOUBLE_EQ(percentile({7}, 93), 7);
}

/// A calm atmosphere, in which tests put things.
class Heuristics : public ::testing::Test {
 protected:
  Heuristics() : data_(static_cast<std::size_t>(grid_.points()) * kChannels) {
    for (int row = 0; row < grid_.rows; ++row)
      for (int column = 0; column < grid_.columns; ++column) {
        set(row, column, PSL, 101000);
        set(row, column, T200, 210);
        set(row, column, T500, 260);
        set(row, column, Z200, 12000);
        set(row, column, TMQ, 10);
      }
  }
  void set(int row, int column, Channel channel, double value) {
    data_[static_cast<std::size_t>(fields().index(row, column)) * kChannels + channel] = static_cast<float>(value);
  }
  SnapshotFields fields() const { return {grid_, data_}; }
  int row_of(double degrees) const { return static_cast<int>(std::lround((degrees + 90) / 180 * (grid_.rows - 1))); }

  /// Columns [first, last) of the rows between two latitudes get so much water.
  void wet(double south, double north, int first, int last, double water = 50) {
    for (int row = row_of(south); row <= row_of(north); ++row)
      for (int column = first; column < last; ++column) set(row, column, TMQ, water);
  }
  std::int64_t river_points(const RiverHeuristic& h = {}) const {
    return std::ranges::count(find_rivers(fields(), h), 1);
  }

  /// A vortex with its strongest wind 150 km from the centre, low pressure and a warm core.
  void add_cyclone(int row, int column, double wind, double warmth = 5, double depth = 3000) {
    const double latitude = grid_.latitude(row), longitude = grid_.longitude(column);
    const LocalFrame centre = local_frame(latitude, longitude);
    for (int r = 0; r < grid_.rows; ++r)
      for (int c = 0; c < grid_.columns; ++c) {
        const LocalFrame here = local_frame(grid_.latitude(r), grid_.longitude(c));
        const double distance = kRadius * great_circle(latitude, longitude, grid_.latitude(r), grid_.longitude(c));
        const double x = distance / 150e3, v = wind * x * std::exp((1 - x * x) / 2),
                     near = std::exp(-square(distance / 300e3));
        const Vector turn = unit(cross(centre.up, here.up));
        const double sign = latitude < 0 ? -1 : 1;
        for (const Channel u : {U850, UBOT}) set(r, c, u, fields().at(r, c, u) + sign * v * dot(turn, here.east));
        for (const Channel w : {V850, VBOT}) set(r, c, w, fields().at(r, c, w) + sign * v * dot(turn, here.north));
        set(r, c, PSL, fields().at(r, c, PSL) - depth * near);
        set(r, c, T500, fields().at(r, c, T500) + warmth * near);
        set(r, c, Z200, fields().at(r, c, Z200) + 100 * near);
        set(r, c, TMQ, fields().at(r, c, TMQ) + 30 * near);
        set(r, c, PRECT, fields().at(r, c, PRECT) + 1e-6 * near);
      }
  }

  Grid grid_{181, 360};  // one degree
  std::vector<float> data_;
};

TEST_F(Heuristics, RiversAreWetLongAndNarrow) {
  wet(30, 50, 100, 105);
  EXPECT_EQ(river_points(), 21 * 5);
  wet(30, 50, 100, 130);  // 2000 km wide
  EXPECT_EQ(river_points(), 0);
}

TEST_F(Heuristics, WhatIsShortDryOrNearTheEquatorIsNoRiver) {
  wet(40, 48, 20, 25);  // 1000 km from corner to corner
  wet(30, 50, 100, 105, 23);
  wet(-8, 12, 200, 205);    // damped
  wet(-40, -40, 250, 300);  // one row
  EXPECT_EQ(river_points(), 0);
  EXPECT_EQ(river_points({.threshold = 16}), 21 * 5);
}

TEST_F(Heuristics, RiversEndAtTheLastColumnUnlessTheyWrap) {
  wet(35, 45, 350, 360);
  wet(35, 45, 0, 10);
  EXPECT_EQ(river_points({.diagonal = 1.7e6}), 0);
  EXPECT_EQ(river_points({.diagonal = 1.7e6, .width = 2e6, .wrap = true}), 11 * 20);
}

TEST_F(Heuristics, TheOlderRiversAreAboveAPercentileOfTheFlux) {
  for (int row = row_of(30); row <= row_of(50); ++row)
    for (int column = 100; column < 105; ++column) set(row, column, V850, -20), set(row, column, QREFHT, 0.01);
  EXPECT_EQ(river_points(RiverHeuristic::of_flux()), 21 * 5);
  EXPECT_EQ(river_points(), 0);
}

TEST_F(Heuristics, FindsACycloneInBothHemispheresAndAtTheLastColumn) {
  add_cyclone(row_of(15), 359, 40);
  add_cyclone(row_of(-20), 100, 30);
  for (const auto& h : {CycloneHeuristic(), CycloneHeuristic::strict()}) {
    const auto found = find_cyclones(fields(), h);
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[0].row, row_of(-20));
    EXPECT_EQ(found[0].column, 100);
    EXPECT_EQ(found[1].row, row_of(15));
    EXPECT_EQ(found[1].column, 359);
    EXPECT_NEAR(found[1].wind, 40, 3);
    EXPECT_NEAR(found[1].radius, 1.35, 0.5);
    EXPECT_NEAR(found[1].pressure, 98000, 10);
    EXPECT_GT(found[1].vorticity, 2e-4);
  }
  const auto mask = cyclone_mask(fields(), find_cyclones(fields(), {}), {});
  EXPECT_EQ(mask[static_cast<std::size_t>(fields().index(row_of(15), 359))], 1);
  EXPECT_EQ(mask[static_cast<std::size_t>(fields().index(row_of(15), 360))], 1)
      << "the first column is beside the last";
  EXPECT_EQ(mask[static_cast<std::size_t>(fields().index(row_of(15), 180))], 0);
  const auto labels = heuristic_labels(fields(), {});
  EXPECT_EQ(labels[static_cast<std::size_t>(fields().index(row_of(-20), 100))], kCyclone);
}

TEST_F(Heuristics, ColdWeakAndExtratropicalLowsAreNoCyclones) {
  add_cyclone(row_of(15), 50, 40, -5);
  add_cyclone(row_of(15), 150, 15);
  add_cyclone(row_of(55), 250, 40);
  EXPECT_EQ(find_cyclones(fields(), {}).size(), 0u);
  add_cyclone(row_of(-15), 300, 30, 0.5, 300);  // shallow, hardly warm
  EXPECT_EQ(find_cyclones(fields(), {}).size(), 1u);
  EXPECT_EQ(find_cyclones(fields(), CycloneHeuristic::strict()).size(), 0u);
}

/// Where the generator puts cyclones, they are found; and the labels agree with the truth, as far as such labels do.
TEST(HeuristicLabels, FindWhatIsInGeneratedSnapshots) {
  int there = 0, found = 0;
  ConfusionMatrix confusion(kClasses);
  for (int i = 0; i < 4; ++i) {
    const SnapshotKey key = key_of(5, 2, i);
    const Weather weather({192, 288}, key, {3, 4.3});
    Snapshot s;
    make_snapshot(weather, key, 0.001, 1, s);
    const SnapshotFields fields{s.grid, s.data};
    const auto cyclones = find_cyclones(fields, {});
    for (const auto& c : weather.cyclones()) {
      if (c.strongest_wind() < 30) continue;  // in the lowest layer, weaker ones have no 17 m/s
      ++there;
      found += std::ranges::any_of(cyclones, [&](const CycloneCandidate& k) {
        const LocalFrame at = local_frame(s.grid.latitude(k.row), s.grid.longitude(k.column));
        return dot(at.up, c.centre().up) > std::cos(2 * kDegree);
      });
    }
    const auto labels = heuristic_labels(fields, {});
    for (std::size_t p = 0; p < labels.size(); ++p) confusion.add(static_cast<int>(s.labels[p]), labels[p]);
  }
  EXPECT_GE(there, 3);
  EXPECT_GE(found, there * 3 / 4);
  EXPECT_GT(confusion.iou(kBackground, 0), 0.9);
  EXPECT_GT(confusion.iou(kCyclone, 0), 0.1);
  EXPECT_GT(confusion.iou(kRiver, 0), 0.2);
}

}  // namespace
}  // namespace keelson::climate
