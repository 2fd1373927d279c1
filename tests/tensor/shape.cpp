#include "engine/tensor/shape.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace keelson {
namespace {

TEST(Shape, Elements) {
  EXPECT_EQ((Shape{2, 3, 5}.elements()), 30);
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_EQ((Shape{2, 0, 5}.elements()), 0);
  EXPECT_EQ((Shape{1 << 20, 1 << 20}.elements()), std::int64_t{1} << 40);
}

TEST(Shape, EqualityNeedsTheSameRank) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2}), (Shape{2, 1}));
  EXPECT_NE((Shape{2}), (Shape{2, 0}));
  EXPECT_NE(Shape{}, Shape{0});
}

TEST(Shape, UpToSixDims) {
  Shape s = Shape::filled(5, 2);
  s.push_back(7);
  EXPECT_EQ(s, (Shape{2, 2, 2, 2, 2, 7}));
  EXPECT_THROW(s.push_back(1), Error);
  EXPECT_THROW((Shape{1, 2, 3, 4, 5, 6, 7}), Error);
}

TEST(Shape, IteratesAndIndexes) {
  Shape s{4, 5, 6};
  s[1] = 9;
  EXPECT_EQ(std::vector<std::int64_t>(s.begin(), s.end()), (std::vector<std::int64_t>{4, 9, 6}));
}

TEST(Shape, Text) {
  EXPECT_EQ(to_string(Shape{2, 4, 128}), "2x4x128");
  EXPECT_EQ(to_string(Shape{}), "scalar");
}

}  // namespace
}  // namespace keelson
