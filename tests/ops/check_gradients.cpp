#include <cstring>
#include <limits>

#include "engine/ops/update.hpp"
#include "tests/ops/op_test.hpp"

/// Loss scaling: which steps are skipped, and how the scale moves.
namespace keelson::testing {
namespace {

using ops::LossScale;

struct CheckCase {
  std::string name, about;
  ops::CheckGradientsDesc desc;
  float scale;                ///< at the beginning
  std::vector<double> steps;  ///< of each step, one of its sums of squares
};

std::vector<CheckCase> check_cases() {
  const ops::CheckGradientsDesc fixed{}, moving{true, 2, 0.5f, 3}, gentle{true, 1.5f, 0.25f, 1};
  return {
      {"fixed", "the scale stays", fixed, 128, {1, inf, 2, nan, 3, 4, 5}},
      {"grows", "after three good steps", moving, 1024, {1, 2, 3, 4, 5, 6, 7}},
      {"shrinks", "at once, and the count begins anew", moving, 1024, {1, 2, inf, 1, 2, nan, nan, 1, 2, 3}},
      {"least", "no less than 1", moving, 2, {inf, inf, inf, 0}},
      {"most", "no more than 2^24", moving, 8388608, {1, 1, 1, 1, 1, 1, 1, 1, 1}},
      {"every_step", "other factors", gentle, 100, {1, 1, -inf, 1}},
      {"huge", "a sum of squares above what f32 holds is finite", moving, 4, {1e77, 1e300}},
  };
}

class CheckGradientsTest : public CaseTest<CheckCase> {
 protected:
  LossScale read(const Tensor& scale) {
    LossScale s;
    std::memcpy(&s, raw_bytes(ctx(), scale).data(), sizeof s);
    return s;
  }
};

TEST_P(CheckGradientsTest, MatchesOracle) {
  const auto op = make(c().desc);
  if (!op) return;
  for (const std::int64_t count : {1, 5}) {
    LossScale want{.scale = c().scale};
    const auto scale = put_loss_scale(ctx(), want);
    for (const double sum : c().steps) {
      Array sums(Shape{count}, 0.5);
      sums[count / 2] = sum;
      const auto given = put_f64(ctx(), sums);
      const auto used = allocations_of([&] { op->forward({given, scale}); });
      EXPECT_LE(used.bytes, allowed_bytes());
      want = oracle::check_gradients(want, c().desc, sums);
      const auto got = read(scale);
      EXPECT_EQ(got.scale, want.scale);
      EXPECT_EQ(got.unscale, want.unscale);
      EXPECT_EQ(got.good_steps, want.good_steps);
      EXPECT_EQ(got.skip, want.skip);
      EXPECT_EQ(got.skipped, want.skipped);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(CheckGradients, CheckGradientsTest, ::testing::ValuesIn(on_every_context(check_cases())),
                         CaseName());

/// The scale of a step is undone in that step, also where it moves.
TEST(CheckGradients, OracleUndoesTheScaleOfTheStepAtHand) {
  const ops::CheckGradientsDesc d{true, 2, 0.5f, 1};
  auto s = oracle::check_gradients({.scale = 8}, d, Array(Shape{1}, 1.0));
  EXPECT_EQ(s.unscale, 1.0f / 8);
  EXPECT_EQ(s.scale, 16);
  s = oracle::check_gradients(s, d, Array(Shape{1}, inf));
  EXPECT_EQ(s.unscale, 1.0f / 16);
  EXPECT_EQ(s.scale, 8);
  EXPECT_EQ(s.skip, 1);
  EXPECT_EQ(s.skipped, 1);
}

TEST(CheckGradients, DeclinesFactorsThatDoNotFit) {
  auto& context = testing::context(network_contexts().back());
  EXPECT_EQ(context.try_make(ops::CheckGradientsDesc{true, 0.5f, 0.5f, 10}), nullptr);
  EXPECT_EQ(context.try_make(ops::CheckGradientsDesc{true, 2, 0, 10}), nullptr);
  EXPECT_EQ(context.try_make(ops::CheckGradientsDesc{true, 2, 2, 10}), nullptr);
  EXPECT_EQ(context.try_make(ops::CheckGradientsDesc{true, 2, 0.5f, 0}), nullptr);
}

}  // namespace
}  // namespace keelson::testing
