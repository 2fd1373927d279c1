#include "engine/ops/peaks.hpp"

#include <gtest/gtest.h>

#include "tests/support/contexts.hpp"

namespace keelson::testing {
namespace {

TEST(Peaks, ShareIsThatOfTheTighterLimit) {
  const DevicePeaks peaks{100e9, 10e9};
  EXPECT_DOUBLE_EQ(peaks.share({50e9, 1e9}, 1), 0.5);         // arithmetic limits
  EXPECT_DOUBLE_EQ(peaks.share({1e9, 5e9}, 1), 0.5);          // memory limits
  EXPECT_DOUBLE_EQ(peaks.share({50e9, 1e9, 25e9}, 1), 0.25);  // by the algorithm with the fewest FLOPs
  EXPECT_DOUBLE_EQ(peaks.share({0, 5e9}, 0.25), 2);           // from caches
  EXPECT_DOUBLE_EQ(peaks.share({50e9, 1e9}, 0), 0);           // not measured
}

TEST(Peaks, RooflineBendsWhereTheLimitsMeet) {
  const DevicePeaks peaks{100e9, 10e9};
  EXPECT_DOUBLE_EQ(peaks.attainable(1), 10e9);
  EXPECT_DOUBLE_EQ(peaks.attainable(10), 100e9);
  EXPECT_DOUBLE_EQ(peaks.attainable(50), 100e9);
}

/// A loop that the compiler took apart would be done in no time.
TEST(Peaks, DeviceMeasuresThem) {
  const auto peaks = context(contexts().front()).device().measure_peaks();
  EXPECT_GT(peaks.copy_bytes_per_second, 0);
  EXPECT_GT(peaks.flops_per_second, 0);
  EXPECT_LT(peaks.flops_per_second, 1e18);
}

}  // namespace
}  // namespace keelson::testing
