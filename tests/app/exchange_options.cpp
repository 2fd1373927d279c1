#include "apps/common/exchange_options.hpp"

#include <gtest/gtest.h>

#include "engine/base/error.hpp"

namespace keelson::app {
namespace {

std::string grid_of(const std::string& spatial, int ranks) {
  RequestedExchange o;
  o.spatial = spatial;
  try {
    const auto extents = grid_extents(o, ranks);
    return std::to_string(extents.data) + " x " + std::to_string(extents.space);
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(ExchangeOptions, TheProcessGridTakesAllRanks) {
  EXPECT_EQ(grid_of("1", 6), "6 x 1");
  EXPECT_EQ(grid_of("2", 6), "3 x 2");
  EXPECT_EQ(grid_of("6", 6), "1 x 6");
  EXPECT_EQ(grid_of("2x3", 12), "2 x 6");
}

TEST(ExchangeOptions, RefusesGridsThatTheRanksDoNotFill) {
  EXPECT_NE(grid_of("4", 6).find("6 ranks, but --spatial 4 takes multiples of 4: "), std::string::npos);
  EXPECT_NE(grid_of("2x3", 4).find("4 ranks, but --spatial 2x3 takes multiples of 6: "), std::string::npos);
  EXPECT_NE(grid_of("8", 1).find("1 rank, but --spatial 8 takes multiples of 8: "), std::string::npos);
  EXPECT_NE(grid_of("2000000000x2000000000", 2).find("takes multiples of 4000000000000000000"), std::string::npos);
  for (const char* text : {"", "0", "-2", "two", "2x", "x2", "2x0", "2x2x2", "2,2", "2 x 2"})
    EXPECT_NE(grid_of(text, 8).find("--spatial is '" + std::string(text) + "': expected the number of parts"),
              std::string::npos)
        << text << ": " << grid_of(text, 8);
}

}  // namespace
}  // namespace keelson::app
