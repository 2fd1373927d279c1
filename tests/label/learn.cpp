#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "apps/label/learn/ensemble.hpp"
#include "engine/base/error.hpp"
#include "engine/base/philox.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/data_files.hpp"

namespace keelson::label::testing {
namespace {

using keelson::testing::context;
using keelson::testing::network_contexts;

/// Two clouds of points, or images that are bright on one of two sides; the class of image i is i % 2.
Features two_classes(const Shape& shape, std::int64_t count) {
  Features f{shape, {}};
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t k = 0; k < shape.elements(); ++k) {
      const bool bright = shape.rank() == 1 ? k == 0 : k % shape[2] < shape[2] / 2;
      const float noise = philox::uniform({5, 1, static_cast<std::uint64_t>(i)}, static_cast<std::uint64_t>(k)) - 0.5f;
      f.values.push_back(noise + (bright == (i % 2 == 0) ? 1.0f : -1.0f));
    }
  return f;
}

std::vector<Labelled> first_of(std::int64_t n) {
  std::vector<Labelled> all;
  for (std::int64_t i = 0; i < n; ++i) all.emplace_back(i, i % 2);
  return all;
}

int right_of(const Predictions& p) {
  int right = 0;
  for (std::int64_t i = 0; i < p.images; ++i) {
    const auto o = p.of(i);
    double second = 0;
    for (std::int64_t m = 0; m < p.members; ++m) second += static_cast<double>(o[static_cast<std::size_t>(2 * m + 1)]);
    right += (second > static_cast<double>(p.members) / 2) == (i % 2 == 1) ? 1 : 0;
  }
  return right;
}

class EnsembleTest : public ::testing::TestWithParam<Shape> {};

TEST_P(EnsembleTest, LearnsIsTheSameAgainAndComesBackFromFiles) {
  Context& ctx = context(network_contexts().back());
  const Features f = two_classes(GetParam(), 300);
  const EnsembleOptions o{.members = 3, .units = 8, .epochs = 15, .batch = 16, .seed = 4};
  Ensemble e(ctx, f, 2, o), twin(ctx, f, 2, o);
  e.train(first_of(40), 1);
  const Predictions p = e.predict();
  EXPECT_GE(right_of(p), 295);
  for (std::int64_t i = 0; i < p.images; ++i)
    for (std::int64_t m = 0; m < 3; ++m)
      EXPECT_NEAR(p.of(i)[static_cast<std::size_t>(2 * m)] + p.of(i)[static_cast<std::size_t>(2 * m + 1)], 1, 1e-5);
  EXPECT_NE(p.of(0)[0], p.of(0)[2]) << "members differ";
  ASSERT_EQ(p.hidden.size(), 300u * 3 * 8);
  double sum = 0, squares = 0, columns = 0;
  for (std::size_t c = 0; c < 24; ++c) {
    double of_column = 0;
    for (std::size_t i = 0; i < 300; ++i) {
      const auto v = static_cast<double>(p.hidden[i * 24 + c]);
      sum += v;
      of_column += v * v;
    }
    squares += of_column / 300;
    columns += of_column > 0 ? 1 : 0;  // a unit that is always 0 stays so
  }
  EXPECT_NEAR(sum, 0, 1e-2);
  EXPECT_NEAR(squares, columns, 1e-3) << "standardised";

  twin.train(first_of(40), 1);
  EXPECT_EQ(twin.predict().p, p.p);
  const keelson::testing::TemporaryFolder folder;
  Ensemble stored(ctx, f, 2, o);
  EXPECT_FALSE(stored.load(folder.path()));
  e.save(folder.path());
  EXPECT_TRUE(stored.load(folder.path()));
  EXPECT_EQ(stored.predict().p, p.p);
  e.train(first_of(60), 2);
  stored.train(first_of(60), 2);
  EXPECT_EQ(stored.predict().p, e.predict().p) << "a round goes on from the stored weights";
}

INSTANTIATE_TEST_SUITE_P(Features, EnsembleTest, ::testing::Values(Shape{6}, Shape{2, 8, 8}),
                         [](const auto& info) { return info.param.rank() == 1 ? "radial" : "pixels"; });

TEST(HeldOut, FindsLabelsThatAreWrong) {
  Context& ctx = context(network_contexts().back());
  const Features f = two_classes({6}, 120);
  auto labelled = first_of(120);
  labelled[10].second = 1;
  labelled[31].second = 0;
  const auto p = held_out(ctx, f, 2, {.members = 2, .units = 8, .epochs = 15, .batch = 16}, labelled, 4);
  ASSERT_EQ(p.size(), 120u * 2 * 2);
  for (std::size_t i = 0; i < 120; ++i) {
    const bool wrong = i == 10 || i == 31;
    const float of_label = p[4 * i + static_cast<std::size_t>(labelled[i].second)];
    EXPECT_EQ(of_label < 0.5f, wrong) << i;
  }
  Ensemble e(ctx, f, 2, {});
  EXPECT_THROW(e.train({}, 1), InputError);
}

}  // namespace
}  // namespace keelson::label::testing
