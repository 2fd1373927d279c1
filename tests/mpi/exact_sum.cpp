#include "engine/base/exact_sum.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/mpi/world.hpp"

namespace keelson::testing {
namespace {

class ExactSumTest : public MpiTest {};

double term(int i) { return std::ldexp(std::sin(i + 1.0), 7 * (i % 9) - 30); }

TEST_F(ExactSumTest, RanksWithSharesOfTheTermsGetTheSumOfAll) {
  constexpr int terms = 997;
  std::array<ExactSum, 2> shared, alone;
  for (int i = 0; i < terms; ++i) {
    alone[0].add(term(i));
    alone[1].add(-1e200 * term(i));
    if (i % size() != rank()) continue;
    shared[0].add(term(i));
    shared[1].add(-1e200 * term(i));
  }
  ExactSum::reduce(shared, &world());
  for (std::size_t s = 0; s < 2; ++s) EXPECT_EQ(shared[s].value(), alone[s].value());
  shared[0].add(1);  // goes on as the sum of all
  alone[0].add(1);
  EXPECT_EQ(shared[0].value(), alone[0].value());
}

}  // namespace
}  // namespace keelson::testing
