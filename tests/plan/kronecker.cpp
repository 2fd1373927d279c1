#include "engine/optim/kronecker.hpp"

#include <gtest/gtest.h>

#include "tests/oracle/shampoo.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/tensors.hpp"

/// The products of optimizers with factors, block by block, against the oracle.
namespace keelson::testing {
namespace {

/// The elements of a block of a plain array, by their numbers in the whole.
std::vector<std::int64_t> elements_of_block(const KroneckerBlocks& blocks, std::int64_t block) {
  std::vector<std::int64_t> all;
  const Shape extents = blocks.extents(block);
  for (std::int64_t e = 0; e < extents.elements(); ++e) {
    const Shape where = oracle::indices_of(extents, e);
    std::int64_t at = 0;
    for (int i = 0; i < extents.rank(); ++i) at += where[i] * Layout::plain(blocks.shape()).strides()[i];
    all.push_back(blocks.offset(block) + at);
  }
  return all;
}

struct KroneckerCase {
  Shape shape;
  std::int64_t most;
};

std::vector<KroneckerCase> kronecker_cases() {
  return {{{1}, 8},    {{5}, 8},       {{7}, 3},       {{4, 6}, 8},       {{1, 6}, 8},
          {{7, 5}, 3}, {{4, 3, 5}, 8}, {{5, 4, 3}, 2}, {{2, 3, 2, 4}, 8}, {{3, 4, 2, 3, 2}, 2}};
}

class KroneckerTest : public ::testing::TestWithParam<std::string> {
 protected:
  Context& ctx() { return context(GetParam()); }
  Tensor scratch(std::size_t bytes) {
    return ctx().allocate(TensorDesc::plain({static_cast<std::int64_t>(bytes) + 1}, DType::u8), "scratch");
  }
};

TEST_P(KroneckerTest, BlocksCoverTheParameterOnce) {
  for (const auto& c : kronecker_cases()) {
    const KroneckerBlocks blocks(c.shape, c.most);
    std::vector<int> visits(static_cast<std::size_t>(c.shape.elements()));
    for (std::int64_t b = 0; b < blocks.count(); ++b) {
      for (int i = 0; i < blocks.rank(); ++i) EXPECT_LE(blocks.extents(b)[i], c.most);
      for (const auto e : elements_of_block(blocks, b)) ++visits.at(static_cast<std::size_t>(e));
    }
    EXPECT_EQ(visits, std::vector<int>(visits.size(), 1)) << to_string(c.shape);
  }
}

TEST_P(KroneckerTest, FactorsAddUpProducts) {
  for (const auto& c : kronecker_cases()) {
    const KroneckerBlocks blocks(c.shape, c.most);
    const Array g = oracle::random_uniform(c.shape, "g");
    for (int dim = 0; dim < c.shape.rank(); ++dim) {
      FactorSum op(ctx(), {blocks, dim, 0.75f});
      const Shape shape = blocks.factors(dim);
      const Array before = oracle::random_uniform(shape, "before");
      const Tensor held = put(ctx(), before, Layout::plain(shape));
      op.forward(
          {put(ctx(), g, Layout::plain(c.shape)), held, Tensor(), scratch(op.scratch_bytes(ops::Verb::forward))});
      Array want = before;
      for (std::int64_t b = 0; b < blocks.count(); ++b) {
        Array part(blocks.extents(b));
        const auto elements = elements_of_block(blocks, b);
        for (std::size_t e = 0; e < elements.size(); ++e) part.data[e] = g[elements[e]];
        const Array term = oracle::gram(part, dim);
        const std::int64_t n = part.shape[dim], room = shape[1];
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t j = 0; j < n; ++j) {
            double& v = want[(b * room + i) * room + j];
            v = 0.75 * v + 0.25 * term[i * n + j];
          }
      }
      EXPECT_TRUE(
          close(get(ctx(), held), want, fmt::format("{} by {}, dimension {}", to_string(c.shape), c.most, dim)));
    }
  }
}

TEST_P(KroneckerTest, ProductsGoAlongAllDimensions) {
  for (const auto& c : kronecker_cases()) {
    const KroneckerBlocks blocks(c.shape, c.most);
    const Array g = oracle::random_uniform(c.shape, "g");
    KroneckerProduct op(ctx(), {blocks});
    std::vector<Array> roots;
    std::vector<Tensor> tensors;
    for (int dim = 0; dim < c.shape.rank(); ++dim) {
      const Shape shape = blocks.factors(dim);
      Array r = oracle::random_uniform(shape, fmt::format("r{}", dim));
      const std::int64_t n = shape[1];
      for (std::int64_t b = 0; b < shape[0]; ++b)
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t j = 0; j < i; ++j) r[(b * n + i) * n + j] = r[(b * n + j) * n + i];
      tensors.push_back(put(ctx(), r, Layout::plain(shape)));
      roots.push_back(std::move(r));
    }
    const Tensor dst = put(ctx(), Array(c.shape, 9), Layout::plain(c.shape));
    op.forward({put(ctx(), g, Layout::plain(c.shape)), tensors, dst, scratch(op.scratch_bytes(ops::Verb::forward))});
    Array want(c.shape);
    for (std::int64_t b = 0; b < blocks.count(); ++b) {
      Array part(blocks.extents(b));
      const auto elements = elements_of_block(blocks, b);
      for (std::size_t e = 0; e < elements.size(); ++e) part.data[e] = g[elements[e]];
      for (int dim = 0; dim < c.shape.rank(); ++dim) {
        const std::int64_t n = part.shape[dim], room = blocks.size(dim);
        Array root({n, n});
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t j = 0; j < n; ++j)
            root[i * n + j] = roots[static_cast<std::size_t>(dim)][(b * room + i) * room + j];
        part = oracle::multiply_along(part, root, dim);
      }
      for (std::size_t e = 0; e < elements.size(); ++e) want[elements[e]] = part.data[e];
    }
    EXPECT_TRUE(close(get(ctx(), dst), want, fmt::format("{} by {}", to_string(c.shape), c.most)));
  }
}

INSTANTIATE_TEST_SUITE_P(Contexts, KroneckerTest, ::testing::ValuesIn(network_contexts()),
                         [](const auto& info) { return info.param; });

TEST(MergeSmallDims, LeavesTheFirstAlone) {
  EXPECT_EQ(merge_small_dims({64, 32, 3, 3, 3}, 1024), (Shape{64, 864}));
  EXPECT_EQ(merge_small_dims({64, 64, 3, 3, 3}, 1024), (Shape{64, 576, 3}));
  EXPECT_EQ(merge_small_dims({2, 3}, 1024), (Shape{2, 3}));
  EXPECT_EQ(merge_small_dims({1, 16, 1, 3}, 1024), (Shape{16, 3}));
  EXPECT_EQ(merge_small_dims({1, 1}, 1024), Shape{1});
  EXPECT_EQ(merge_small_dims({7}, 1024), Shape{7});
}

}  // namespace
}  // namespace keelson::testing
