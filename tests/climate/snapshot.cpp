#include "apps/climate/weather/snapshot.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <stdexcept>

#include "apps/climate/weather/parallel.hpp"
#include "apps/climate/weather/physics.hpp"

namespace keelson::climate {
namespace {

Snapshot snapshot(const Grid& grid, const SnapshotKey& key, int threads = 1, double noise = 0.001) {
  Snapshot s;
  make_snapshot(Weather(grid, key, {3, 5}), key, noise, threads, s);
  return s;
}

TEST(Snapshot, DoesNotDependOnTheNumberOfThreads) {
  const Grid grid{96, 145};
  const Snapshot one = snapshot(grid, {1, 2});
  for (const int threads : {2, 3, 7}) {
    const Snapshot more = snapshot(grid, {1, 2}, threads);
    EXPECT_EQ(one.data, more.data);
    EXPECT_EQ(one.labels, more.labels);
    EXPECT_EQ(one.sums.sum, more.sums.sum);
    EXPECT_EQ(one.sums.squares, more.sums.squares);
    EXPECT_EQ(one.pixels, more.pixels);
  }
}

TEST(Snapshot, DependsOnSeedAndNumber) {
  const Grid grid{64, 96};
  const Snapshot one = snapshot(grid, {1, 2});
  EXPECT_EQ(one.data, snapshot(grid, {1, 2}).data);
  EXPECT_NE(one.data, snapshot(grid, {1, 3}).data);
  EXPECT_NE(one.data, snapshot(grid, {2, 2}).data);
  EXPECT_NE(one.labels, snapshot(grid, {1, 3}).labels);
}

TEST(Snapshot, CountsWhatItHolds) {
  const Snapshot s = snapshot({96, 144}, {1, 2});
  for (int k = 0; k < kClasses; ++k) EXPECT_EQ(std::ranges::count(s.labels, static_cast<float>(k)), s.pixels[k]);
  EXPECT_EQ(s.pixels[0] + s.pixels[1] + s.pixels[2], s.grid.points());
  EXPECT_GT(s.pixels[kRiver], 0);
  EXPECT_GT(s.pixels[kCyclone], 0);
  for (int c = 0; c < kChannels; ++c) {
    double sum = 0, squares = 0;
    float least = s.data[c], most = s.data[c];
    for (std::size_t i = c; i < s.data.size(); i += kChannels) {
      sum += s.data[i];
      squares += square(s.data[i]);
      least = std::min(least, s.data[i]);
      most = std::max(most, s.data[i]);
    }
    EXPECT_NEAR(s.sums.sum[c], sum, 1e-9 * std::abs(squares) + 1e-9);
    EXPECT_NEAR(s.sums.squares[c], squares, 1e-9 * squares);
    EXPECT_EQ(s.sums.least[c], least);
    EXPECT_EQ(s.sums.most[c], most);
  }
}

TEST(Snapshot, HasNoiseInProportionToEachChannel) {
  const Grid grid{96, 144};
  const Snapshot quiet = snapshot(grid, {1, 2}, 1, 0), noisy = snapshot(grid, {1, 2}, 1, 0.01);
  const double n = static_cast<double>(grid.points());
  for (int c = 0; c < kChannels; ++c) {
    const double mean = quiet.sums.sum[c] / n, sigma = std::sqrt(quiet.sums.squares[c] / n - mean * mean);
    const std::size_t row = 144 * kChannels;
    const auto noise = [&](std::size_t i) { return (noisy.data[i] - quiet.data[i]) / sigma; };
    double sum = 0, squares = 0, neighbours = 0;
    for (std::size_t i = c; i < quiet.data.size(); i += kChannels) {
      sum += noise(i);
      squares += square(noise(i));
      if (i >= row) neighbours += noise(i) * noise(i - row);
    }
    if (c == PRECT) {
      EXPECT_LT(std::sqrt(squares / n), 0.0102);  // less, where it is dry
    } else {
      EXPECT_NEAR(sum / n, 0, 5 * 0.01 / std::sqrt(n)) << kChannelNames[c];
      EXPECT_NEAR(std::sqrt(squares / n), 0.01, 0.0002) << kChannelNames[c];
      EXPECT_NEAR(neighbours / squares, 0, 5 / std::sqrt(n)) << kChannelNames[c];
    }
  }
  EXPECT_EQ(quiet.labels, noisy.labels);
}

// Hydrostatic balance and the other relations between channels hold in the files to the rounding of float.
TEST(Snapshot, HasChannelsThatFitTogether) {
  const Snapshot s = snapshot({96, 144}, {1, 2}, 1, 0);
  for (std::size_t i = 0; i < s.labels.size(); ++i) {
    const float* x = &s.data[i * kChannels];
    const double t1000 = x[TS];
    ASSERT_NEAR(x[Z200] - x[Z1000], thickness(t1000, x[T500], x[T200]), 0.005);
    ASSERT_NEAR(x[PSL], sea_level_pressure(x[Z1000], t1000), 0.05);
    ASSERT_EQ(x[PS], x[PSL]);
    ASSERT_NEAR(x[TREFHT], x[TS] - 1, 1e-4);
    ASSERT_NEAR(x[ZBOT], kRd * t1000 / kGravity * std::log(1 / 0.99256), 1e-4);
    ASSERT_NEAR(x[QREFHT], 0.8 * saturation_humidity(x[TREFHT], x[PS]), 1e-7);
  }
}

// Wind in the lowest layer is slower and blows to the left in the north, to the right in the south.
TEST(Snapshot, HasFrictionInTheLowestLayer) {
  Snapshot s;
  const SnapshotKey key{1, 2};
  const Grid grid{96, 144};
  const Weather weather(grid, key, {0, 0});
  make_snapshot(weather, key, 0, 1, s);
  WeatherRow row;
  Weather::Workspace work;
  for (int r = 0; r < grid.rows; ++r) {
    weather.make_row(r, row, work);
    const double degrees = row.latitude / kDegree, turn = 18 * kDegree * clip(degrees / 5, -1, 1);
    for (int i = 0; i < grid.columns; ++i) {
      const float* x = &s.data[(static_cast<std::size_t>(r) * 144 + i) * kChannels];
      const double u = row.u1000[i], v = row.v1000[i];
      ASSERT_NEAR(x[UBOT] * u + x[VBOT] * v, 0.75 * (u * u + v * v) * std::cos(turn), 1e-3);
      ASSERT_NEAR(u * x[VBOT] - v * x[UBOT], 0.75 * (u * u + v * v) * std::sin(turn), 1e-3);
    }
  }
}

/// Extremes of a channel: what no snapshot may exceed, and about where the extremes of half of the snapshots lie.
struct Range {
  Channel channel;
  double least, most, usual_least, usual_most;
};

constexpr Range kRanges[] = {
    {TMQ, 0, 90, 1, 58},
    {U850, -80, 80, -30, 37},
    {V850, -80, 80, -31, 31},
    {UBOT, -60, 60, -21, 21},
    {VBOT, -60, 60, -21, 21},
    {QREFHT, 1e-4, 3.2e-2, 5e-4, 2.3e-2},
    {PS, 9.2e4, 1.07e5, 97500, 103200},
    {PSL, 9.2e4, 1.07e5, 97500, 103200},
    {T200, 190, 225, 196, 210},
    {T500, 180, 290, 203, 270},
    {PRECT, 0, 5.1e-6, 0, 2.7e-6},
    {TS, 235, 315, 252, 306},
    {TREFHT, 234, 314, 251, 305},
    {Z1000, -650, 500, -205, 270},
    {Z200, 9200, 12500, 10000, 12270},
    {ZBOT, 50, 70, 55, 67},
};

TEST(Snapshot, HasValuesInTheRangesOfTheAtmosphere) {
  constexpr int kSamples = 15;
  std::array<std::vector<float>, kChannels> least, most;
  for (std::uint64_t sample = 0; sample < kSamples; ++sample) {
    Snapshot s;
    const SnapshotKey key{1, sample};
    make_snapshot(Weather({192, 288}, key, {}), key, 0.001, 2, s);
    for (int c = 0; c < kChannels; ++c) {
      least[c].push_back(s.sums.least[c]);
      most[c].push_back(s.sums.most[c]);
    }
    ASSERT_TRUE(std::ranges::all_of(s.data, [](float x) { return std::isfinite(x); }));
  }
  for (const Range& r : kRanges) {
    std::ranges::sort(least[r.channel]);
    std::ranges::sort(most[r.channel]);
    const char* name = kChannelNames[r.channel];
    const double slack = 0.12 * (r.usual_most - r.usual_least);
    EXPECT_GE(least[r.channel].front(), r.least) << name;
    EXPECT_LE(most[r.channel].back(), r.most) << name;
    EXPECT_NEAR(least[r.channel][kSamples / 2], r.usual_least, slack) << name;
    EXPECT_NEAR(most[r.channel][kSamples / 2], r.usual_most, slack) << name;
  }
}

TEST(Rows, AreMadeOnceEachAndPassErrorsOn) {
  for (const int threads : {1, 4}) {
    std::vector<std::atomic<int>> made(100);
    for_each_row(threads, 100, [&](int thread, int row) {
      EXPECT_LT(thread, threads);
      ++made[row];
    });
    for (const auto& n : made) EXPECT_EQ(n, 1);
    EXPECT_THROW(for_each_row(threads, 100,
                              [](int, int row) {
                                if (row == 17) throw std::runtime_error("row 17");
                              }),
                 std::runtime_error);
  }
}

}  // namespace
}  // namespace keelson::climate
