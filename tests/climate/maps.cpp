#include <gtest/gtest.h>

#include "apps/climate/maps/map.hpp"
#include "apps/climate/maps/predicted_maps.hpp"

namespace keelson::climate {
namespace {

/// Straight pieces are one piece; the north is at the top.
TEST(ClimateMaps, OutlinesGoAroundTheClass) {
  const std::vector<std::int32_t> labels{
      1, 1, 0,  // the southern row
      2, 1, 0,
  };
  EXPECT_EQ(outline_path(labels, 2, 3, 1), "M0 2h2M0 1h1M1 0h1M0 2v-1M1 1v-1M2 2v-2");
  EXPECT_EQ(outline_path(labels, 2, 3, 2), "M0 1h1M0 0h1M0 1v-1M1 1v-1");
  EXPECT_EQ(outline_path(std::vector<std::int32_t>(6), 2, 3, 1), "");
}

TEST(ClimateMaps, KeepTheFirstSamplesInTheirOrder) {
  PredictedMaps maps(2);
  maps.reset({.samples = 3, .prediction = {1, 3, 1, 2}, .target = {"y", {1, 2}, DType::s32}});
  const std::vector<float> logits{0, 5, 9, 4, 1, 6,   // the classes 1, 2
                                  7, 0, 1, 0, 2, -1,  // 0, 0
                                  0, 3, 1, 1, 2, 0};  // 2, 0
  const std::vector<std::int64_t> indices{1, 2, 0};
  maps.update({.count = 3, .indices = indices.data(), .predictions = logits.data()});
  maps.reduce(nullptr);
  EXPECT_EQ(maps.maps(), (std::vector<std::vector<std::int32_t>>{{2, 0}, {1, 2}}));
}

}  // namespace
}  // namespace keelson::climate
