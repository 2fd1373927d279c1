#include "insitu/parts.hpp"

#include <gtest/gtest.h>

namespace keelson::testing {
namespace {

using insitu::problem_of_parts;

TEST(InsituParts, ThatMakeUpTheFieldAreRight) {
  EXPECT_EQ(problem_of_parts({{{0, 0, 0}, {1, 4, 8}}}, {1, 4, 8}, 2), "");
  EXPECT_EQ(problem_of_parts({{{0, 0, 4}, {1, 4, 4}}, {{0, 0, 0}, {1, 1, 4}}, {{0, 1, 0}, {1, 3, 4}}}, {1, 4, 8}, 2),
            "");
  std::vector<insitu::Part> blocks;  // of 2 x 3 x 4
  for (std::int64_t z = 0; z < 3; ++z)
    for (std::int64_t y = 3; y-- > 0;)
      for (std::int64_t x = 0; x < 3; ++x) blocks.push_back({{2 * z, 3 * y, 4 * x}, {2, 3, 4}});
  EXPECT_EQ(problem_of_parts(blocks, {6, 9, 12}, 3), "");
  blocks[13].offset[2] = 3;
  EXPECT_EQ(problem_of_parts(blocks, {6, 9, 12}, 3),
            "rank 12 has cells [2:4, 3:6, 0:4] and rank 13 has cells [2:4, 3:6, 3:7], which overlap");
  blocks.erase(blocks.begin() + 13);
  const auto problem = problem_of_parts(blocks, {6, 9, 12}, 3);
  EXPECT_EQ(problem.find("no rank has the cell (2, 3, 4): rank 0 has cells [0:2, 6:9, 0:4], "), 0U) << problem;
  EXPECT_NE(problem.find(", and 18 more ranks have others"), std::string::npos) << problem;
}

TEST(InsituParts, ThatOverlapLeaveCellsOutOrReachOutAreNamed) {
  // As many cells as the whole field has.
  EXPECT_EQ(problem_of_parts({{{0, 0, 0}, {1, 2, 8}}, {{0, 1, 0}, {1, 2, 8}}}, {1, 4, 8}, 2),
            "rank 0 has cells [0:2, 0:8] and rank 1 has cells [1:3, 0:8], which overlap");
  EXPECT_EQ(problem_of_parts({{{0, 0, 0}, {1, 2, 8}}, {{0, 2, 0}, {1, 2, 7}}}, {1, 4, 8}, 2),
            "no rank has the cell (2, 7): rank 0 has cells [0:2, 0:8], rank 1 has cells [2:4, 0:7]");
  EXPECT_EQ(problem_of_parts({{{0, 1, 0}, {1, 3, 8}}}, {1, 4, 8}, 2),
            "no rank has the cell (0, 0): rank 0 has cells [1:4, 0:8]");
  EXPECT_EQ(problem_of_parts({{{0, 0, 0}, {1, 2, 8}}, {{0, 3, 0}, {1, 2, 8}}}, {1, 4, 8}, 2),
            "rank 1 has cells [3:5, 0:8], which reach out of the field");
  EXPECT_EQ(problem_of_parts({{{0, 0, -1}, {1, 4, 8}}}, {1, 4, 8}, 2),
            "rank 0 has cells [0:4, -1:7], which reach out of the field");
}

}  // namespace
}  // namespace keelson::testing
