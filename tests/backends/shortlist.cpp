#include "backends/common/shortlist.hpp"

#include <gtest/gtest.h>

namespace keelson::backends {
namespace {

using Places = std::vector<std::size_t>;

TEST(Shortlist, TakesTheBestOfEachEngine) {
  const std::int64_t engines[] = {62, 62, 62, 22, 62, 28, 22, 22, 0};
  EXPECT_EQ(shortlist(engines, 2, 100), (Places{0, 1, 3, 5, 6, 8}));
  EXPECT_EQ(shortlist(engines, 100, 100), (Places{0, 1, 2, 3, 4, 5, 6, 7, 8})) << "in the order of the proposals";
}

TEST(Shortlist, LeavesOutTheLastOfEachEngineFirst) {
  const std::int64_t engines[] = {62, 62, 62, 62, 22, 22, 28};
  EXPECT_EQ(shortlist(engines, 8, 6), (Places{0, 1, 2, 4, 5, 6})) << "the fourth of 62";
  EXPECT_EQ(shortlist(engines, 8, 5), (Places{0, 1, 4, 5, 6}));
  EXPECT_EQ(shortlist(engines, 8, 4), (Places{0, 1, 4, 6})) << "of two second-best ones the earlier";
  EXPECT_EQ(shortlist(engines, 8, 2), (Places{0, 4}));
}

TEST(Shortlist, TakesAllWhereFewAreProposed) {
  EXPECT_EQ(shortlist({}, 8, 32), Places{});
  const std::int64_t engines[] = {7};
  EXPECT_EQ(shortlist(engines, 8, 32), Places{0});
}

}  // namespace
}  // namespace keelson::backends
