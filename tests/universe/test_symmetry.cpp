#include "apps/cosmoflow/data/symmetry.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/data/loader.hpp"

namespace keelson::cosmoflow {
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

/// Runs of before must repeat: these come from another implementation of the same definition.
TEST(RandomCubeSymmetry, DrawsAsDefined) {
  const int expected[] = {37, 36, 27, 40, 34, 12, 42, 18, 13, 36, 33, 35};
  for (int i = 0; i < 12; ++i) EXPECT_EQ(RandomCubeSymmetry().draw({7, 3, i}), expected[i]) << i;
  std::set<int> distinct;
  for (int i = 0; i < 1000; ++i) distinct.insert(RandomCubeSymmetry().draw({1, 0, i}));
  EXPECT_EQ(distinct.size(), 48u);
}

/// A cubic field, one that is not, and a target.
class Boxes final : public Dataset {
 public:
  explicit Boxes(std::int64_t depth) : fields_{{"x", {2, depth, 3, 3}}, {"long", {1, 2, 3, 3}}, {"y", {1}}} {}
  std::int64_t size() const override { return 24; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::int64_t index, void* const* dst) const override {
    for (std::size_t f = 0; f < fields_.size(); ++f)
      std::iota(static_cast<float*>(dst[f]), static_cast<float*>(dst[f]) + fields_[f].shape.elements(),
                static_cast<float>(1000 * index));
  }
  std::string describe() const override { return "boxes"; }

 private:
  std::vector<Field> fields_;
};

/// Each plane of the first dimension stays a plane of it.
TEST(RandomCubeSymmetry, DrawsThoseThatKeepPlanes) {
  const RandomCubeSymmetry turn(plane_symmetries);
  std::set<int> distinct;
  for (int i = 0; i < 1000; ++i) distinct.insert(turn.draw({1, 0, i}));
  EXPECT_EQ(distinct.size(), 16U);
  for (const int symmetry : distinct) EXPECT_EQ(cube_symmetry(symmetry).axis[0], 0);
  for (int symmetry = plane_symmetries; symmetry < cube_symmetries; ++symmetry)
    EXPECT_NE(cube_symmetry(symmetry).axis[0], 0);
}

TEST(RandomCubeSymmetry, TurnsCubicFieldsAlone) {
  const Boxes data(3);
  LoaderOptions options;
  options.batch = 4;
  options.seed = 11;
  options.decoding.transform = std::make_shared<RandomCubeSymmetry>();
  Loader loader(data, options);
  loader.start_epoch(2);
  int samples = 0;
  for (const Batch* b; (b = loader.next()) != nullptr;) {
    for (std::int64_t i = 0; i < b->count; ++i, ++samples) {
      std::vector<float> x(54), box(18), y(1), image(54);
      void* const dst[] = {x.data(), box.data(), y.data()};
      data.read(b->indices[i], dst);
      turn_cube(RandomCubeSymmetry().draw({11, 2, b->indices[i]}), x.data(), image.data(), 3, 2);
      const auto field = [&](int f, std::int64_t n) { return static_cast<const float*>(b->fields[f]) + i * n; };
      EXPECT_TRUE(std::equal(image.begin(), image.end(), field(0, 54)));
      EXPECT_TRUE(std::equal(box.begin(), box.end(), field(1, 18)));
      EXPECT_EQ(*field(2, 1), y[0]);
    }
  }
  EXPECT_EQ(samples, 24);
}

TEST(RandomCubeSymmetry, RefusesDataWithoutCubes) {
  const Boxes data(4);
  LoaderOptions options;
  options.decoding.transform = std::make_shared<RandomCubeSymmetry>();
  EXPECT_THROW(Loader(data, options), InputError);
}

TEST(Symmetry, RefusesOtherNumbers) {
  EXPECT_THROW(cube_symmetry(-1), Error);
  EXPECT_THROW(cube_symmetry(48), Error);
}

}  // namespace
}  // namespace keelson::cosmoflow
