#include "engine/data/symmetry.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "engine/base/error.hpp"

namespace keelson {
namespace {

std::vector<float> numbered(std::int64_t size, std::int64_t channels) {
  std::vector<float> v(static_cast<std::size_t>(size * size * size * channels));
  std::iota(v.begin(), v.end(), 0.0f);
  return v;
}

std::vector<float> turned(int symmetry, const std::vector<float>& src, std::int64_t size, std::int64_t channels) {
  std::vector<float> dst(src.size(), -1.0f);
  turn_cube(symmetry, src.data(), dst.data(), size, channels);
  return dst;
}

TEST(Symmetry, MatchesTheIndexFormula) {
  for (const auto& [size, channels] : {std::pair<int, int>{1, 3}, {2, 1}, {3, 4}, {8, 1}, {11, 2}, {17, 3}}) {
    const auto src = numbered(size, channels);
    for (int index = 0; index < cube_symmetries; ++index) {
      const auto dst = turned(index, src, size, channels);
      const CubeSymmetry s = cube_symmetry(index);
      int p[3];
      std::int64_t wrong = 0;
      for (p[0] = 0; p[0] < size; ++p[0])
        for (p[1] = 0; p[1] < size; ++p[1])
          for (p[2] = 0; p[2] < size; ++p[2]) {
            int q[3];
            for (int a = 0; a < 3; ++a) q[a] = s.flip[a] ? size - 1 - p[s.axis[a]] : p[s.axis[a]];
            for (int c = 0; c < channels; ++c)
              wrong += dst[((q[0] * size + q[1]) * size + q[2]) * channels + c] !=
                       src[((p[0] * size + p[1]) * size + p[2]) * channels + c];
          }
      ASSERT_EQ(wrong, 0) << "symmetry " << index << " of " << size << "^3 x " << channels;
    }
  }
}

TEST(Symmetry, AreDistinctBijectionsAndFormAGroup) {
  const int size = 3;
  const auto identity = numbered(size, 1);
  std::map<std::vector<float>, int> images;
  for (int i = 0; i < cube_symmetries; ++i) {
    const auto image = turned(i, identity, size, 1);
    EXPECT_TRUE(images.emplace(image, i).second) << i << " equals " << images[image];
    auto sorted = image;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(sorted, identity) << "not a bijection: " << i;
  }
  EXPECT_EQ(images.at(identity), 0);
  for (int i = 0; i < cube_symmetries; ++i) {
    std::set<int> row;
    for (int j = 0; j < cube_symmetries; ++j) {
      const auto product = images.find(turned(j, turned(i, identity, size, 1), size, 1));
      ASSERT_NE(product, images.end()) << j << " after " << i << " is none of the 48";
      row.insert(product->second);
    }
    EXPECT_EQ(row.size(), 48u);  // so every element has an inverse
  }
}

TEST(Symmetry, KeepsNeighboursTogether) {
  // The distance of two voxels does not change: what tells a symmetry of the cube from any other permutation.
  const int size = 4;
  const auto src = numbered(size, 1);
  for (int index = 0; index < cube_symmetries; ++index) {
    const VoxelMap map = voxel_map(index, size, 1);
    const auto place = [&](int d, int h, int w) {
      const auto i = map.offset + d * map.step[0] + h * map.step[1] + w * map.step[2];
      return std::array<std::int64_t, 3>{i / (size * size), i / size % size, i % size};
    };
    for (const auto& [d, h, w] : {std::array{0, 0, 1}, {0, 1, 0}, {1, 0, 0}, {2, 3, 1}}) {
      const auto a = place(1, 0, 2), b = place(1 + d, h, 2 + w);
      std::int64_t before = d * d + h * h + w * w, after = 0;
      for (int k = 0; k < 3; ++k) after += (a[k] - b[k]) * (a[k] - b[k]);
      EXPECT_EQ(before, after) << index;
    }
  }
}

TEST(Symmetry, RefusesOtherNumbers) {
  EXPECT_THROW(cube_symmetry(-1), Error);
  EXPECT_THROW(cube_symmetry(48), Error);
}

}  // namespace
}  // namespace keelson
