#include "engine/ops/bias_gradient.hpp"

#include <limits>

#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

using ops::Verb;

struct BiasCase {
  std::string name, about;
  Shape shape;
};

const std::vector<BiasCase> bias_cases{
    {"matrix", "no spatial dims", {37, 5}},
    {"one_channel", "", {3, 1, 7}},
    {"packs", "whole packs of channels", {2, 32, 5, 6, 7}},
    {"rest", "a rest of channels", {1, 13, 9, 4}},
    {"long", "sums in several steps", {1, 8, 40, 50, 60}},
    {"wide", "more channels than rows", {2, 300, 2, 1}},
};

class BiasGradientTest : public CaseTest<BiasCase> {};

TEST_P(BiasGradientTest, MatchesOracleInEveryTypeAndLayout) {
  const auto& shape = c().shape;
  for (const auto type : {DType::f32, DType::bf16, DType::f16})
    for (const auto& layout : {Layout::plain(shape), Layout::channels_last(shape)}) {
      const auto what = fmt::format("{} {} {}", c().name, to_string(type), layout.describe(shape));
      const auto op = make(ops::BiasGradientDesc{{shape, type, layout}});
      if (!op) continue;
      Array dy = rounded(oracle::random_uniform(shape, "diff_dst"), type);
      const auto db = destination(ctx(), {shape[1]}, Layout::plain({shape[1]}));
      const auto extra = scratch(ctx(), op->scratch_bytes(Verb::backward_weights));
      run_backward_weights(what, *op, {put(ctx(), dy, layout, type), db, extra});
      check(db, oracle::backward_bias(dy), what);
      dy[dy.elements() / 2] = std::numeric_limits<double>::quiet_NaN();
      op->backward_weights({put(ctx(), dy, layout, type), db, extra});
      check(db, oracle::backward_bias(dy), what + " with a NaN");
    }
}

INSTANTIATE_TEST_SUITE_P(BiasGradient, BiasGradientTest, ::testing::ValuesIn(on_every_context(bias_cases)), CaseName());

}  // namespace
}  // namespace keelson::testing
