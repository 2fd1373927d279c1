#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <vector>

#include "engine/base/error.hpp"
#include "tests/mpi/world.hpp"

/// SumOrder::tree.
namespace keelson::testing {
namespace {

class SumOrderTest : public MpiTest {
 protected:
  /// Numbers of many sizes, so that each order has sums of its own.
  static double term(int rank, std::size_t i) {
    return std::sin(static_cast<double>(i * 31 + static_cast<std::size_t>(rank) * 7 + 1)) *
           std::exp2(static_cast<double>((i + static_cast<std::size_t>(rank) * 3) % 11));
  }
  template <class T>
  static std::vector<T> tree(int first, int ranks, std::size_t count) {
    std::vector<T> sums(count);
    if (ranks == 1) {
      for (std::size_t i = 0; i < count; ++i) sums[i] = static_cast<T>(term(first, i));
      return sums;
    }
    const auto a = tree<T>(first, ranks / 2, count), b = tree<T>(first + ranks / 2, ranks / 2, count);
    for (std::size_t i = 0; i < count; ++i) sums[i] = a[i] + b[i];
    return sums;
  }
  template <class T>
  void expect_tree(std::size_t count, CollectiveDesc::Element element) {
    std::vector<T> data(count);
    const auto group = world().split(0, rank());
    const auto sum = group->make_collective({.src = data.data(),
                                             .dst = data.data(),
                                             .count = count,
                                             .element = element,
                                             .label = "terms",
                                             .order = SumOrder::tree});
    for (int turn = 0; turn < 2; ++turn) {
      for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<T>(term(rank(), i));
      sum->start();
      sum->wait();
      EXPECT_EQ(data, tree<T>(0, size(), count)) << count;
    }
  }
};

TEST_F(SumOrderTest, IsTheTreeForSumsOfParts) {
  if ((size() & (size() - 1)) != 0) GTEST_SKIP() << "a ring, whose sums have another order";
  for (const std::size_t part : {1, 40'001}) {
    const std::size_t count = part * static_cast<std::size_t>(size());
    std::vector<float> data(count);
    float* const mine = data.data() + part * static_cast<std::size_t>(rank());
    const auto sum = world().make_collective({.kind = CollectiveDesc::Kind::reduce_scatter,
                                              .src = data.data(),
                                              .dst = mine,
                                              .count = part,
                                              .element = CollectiveDesc::Element::f32,
                                              .label = "terms",
                                              .consumes_src = true});
    for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<float>(term(rank(), i));
    sum->start();
    sum->wait();
    const auto all = tree<float>(0, size(), count);
    const auto first = all.begin() + (mine - data.data());
    EXPECT_EQ(std::vector<float>(mine, mine + part),
              std::vector<float>(first, first + static_cast<std::ptrdiff_t>(part)));
  }
}

TEST_F(SumOrderTest, IsTheTreeForAllSizes) {
  for (const char* algorithm : {"auto", "doubling", "doubling:64K", "halving", "halving:64K"}) {
    setenv("KEELSON_ALLREDUCE", algorithm, 1);
    for (const std::size_t count : {1, 2, 3, 7, 1023, 40'001, 1'000'003})
      expect_tree<float>(count, CollectiveDesc::Element::f32);
    for (const std::size_t count : {1, 3, 1000}) expect_tree<double>(count, CollectiveDesc::Element::f64);
  }
  unsetenv("KEELSON_ALLREDUCE");
}

TEST_F(SumOrderTest, OtherAlgorithmsAreRefused) {
  KEELSON_NEED_RANKS(2);
  for (const char* algorithm : {"mpi", "ring", "two-level"}) {
    setenv("KEELSON_ALLREDUCE", algorithm, 1);
    const auto group = world().split(0, rank());
    float data = 0;
    EXPECT_THROW(group->make_collective({.src = &data,
                                         .dst = &data,
                                         .count = 1,
                                         .element = CollectiveDesc::Element::f32,
                                         .label = "a term",
                                         .order = SumOrder::tree}),
                 InputError)
        << algorithm;
  }
  unsetenv("KEELSON_ALLREDUCE");
}

}  // namespace
}  // namespace keelson::testing
