#include "apps/common/exchange_options.hpp"

#include <gtest/gtest.h>

#include "engine/base/error.hpp"
#include "engine/layers/layers.hpp"
#include "engine/train/training_grid.hpp"

namespace keelson::app {
namespace {

std::string grid_of(int spatial, int ranks) {
  try {
    const auto extents = training_extents(ranks, {.space = spatial});
    return std::to_string(extents.data) + " x " + std::to_string(extents.space);
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(ExchangeOptions, TheProcessGridTakesAllRanks) {
  EXPECT_EQ(grid_of(1, 6), "6 x 1");
  EXPECT_EQ(grid_of(2, 6), "3 x 2");
  EXPECT_EQ(grid_of(6, 6), "1 x 6");
  EXPECT_NE(grid_of(4, 6).find("6 ranks, but a replica has 4 (--spatial 4): "), std::string::npos);
  EXPECT_NE(grid_of(8, 1).find("1 rank, but a replica has 8 (--spatial 8): "), std::string::npos);
}

TEST(ExchangeOptions, RefusesPartsThatTheNetworkDoesNotHave) {
  const auto refusal = [](const Shape& sample, int parts) {
    Graph g;
    const Var x = g.input("x", sample);
    mse(dense(flatten(sample.rank() > 1 ? conv(x, {.filters = 2}) : x), 1), g.input("y", {1}));
    try {
      require_parts(g, ProcessGrid({.data = 1, .space = parts}, 0));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal({2, 4, 4}, 4), "");
  EXPECT_EQ(refusal({8}, 1), "");
  EXPECT_NE(refusal({2, 4, 4}, 5).find("--spatial 5: the network reads x 1x2x4x4, y 1x1 for a sample"),
            std::string::npos)
      << refusal({2, 4, 4}, 5);
  EXPECT_NE(refusal({8}, 2).find("cannot be cut into 2 parts"), std::string::npos);
}

}  // namespace
}  // namespace keelson::app
