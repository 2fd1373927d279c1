#include "engine/ops/dropout.hpp"

#include "engine/base/philox.hpp"
#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

struct DropoutCase {
  std::string name, about;
  Shape src;
  float rate;
  ops::StepParams step_params;
  std::int64_t rows_per_sample = 1;
};

std::vector<DropoutCase> dropout_cases() {
  return {
      {"dense", "after a dense layer", {4, 33}, 0.5f, {.seed = 11, .step = 3}},
      {"keep_all", "rate 0 is the identity", {3, 5}, 0, {.seed = 11, .step = 3}},
      {"mostly_dropped", "rate 0.9", {2, 3, 5, 7}, 0.9f, {.seed = 1ull << 40, .step = 1ull << 35}},
      {"second_rank", "this rank's samples begin at 6", {2, 17}, 0.3f, {.seed = 5, .step = 0, .sample_offset = 6}},
      {"rows",
       "64 rows a sample, as the paper's network",
       {128, 9},
       0.5f,
       {.seed = 5, .step = 2, .sample_offset = 3},
       64},
      {"volume", "3-D", {1, 4, 3, 5, 3}, 0.25f, {.seed = 9, .step = 9, .sample_offset = 1}},
      {"image",
       "four places of a channel share random bits; channels behind the last whole vector",
       {3, 37, 4, 5},
       0.2f,
       {.seed = 7, .step = 4, .sample_offset = 5}},
      {"narrow_image", "fewer channels than lanes", {2, 3, 2, 6, 1}, 0.4f, {.seed = 3, .step = 8}},
      {"vector", "rank 1", {13}, 0.5f, {.seed = 2, .step = 1}},
  };
}

class DropoutTest : public CaseTest<DropoutCase> {};

TEST_P(DropoutTest, MatchesOracleBothWays) {
  const ops::DropoutParams params{c().rate, philox::stream_of("dropout/" + c().name)};
  const Array x = oracle::random_uniform(c().src, "x", 1, 2), dy = oracle::random_uniform(c().src, "dy", 1, 2);
  for (const auto choice : {LayoutChoice::plain, LayoutChoice::channels_last}) {
    const auto layout = layout_of(ctx(), choice, c().src);
    if (!layout) continue;
    const TensorDesc tensor{c().src, DType::f32, *layout};
    const auto op = make(ops::DropoutDesc{params, tensor, c().rows_per_sample});
    if (!op) continue;
    const auto what = c().name + ", " + to_string(choice);
    const auto step_params = put_step_params(ctx(), c().step_params);
    const auto src = put(ctx(), x, *layout), dst = destination(ctx(), c().src, *layout);
    run_forward(what, *op, {step_params, src, dst});
    check(dst, oracle::dropout(x, params, c().step_params, c().rows_per_sample), what + " dst");
    const auto diff_dst = put(ctx(), dy, *layout), diff_src = destination(ctx(), c().src, *layout);
    run_backward_data(what, *op, {step_params, diff_dst, diff_src});
    check(diff_src, oracle::dropout(dy, params, c().step_params, c().rows_per_sample), what + " diff_src");

    op->forward({step_params, src, src});
    check(src, oracle::dropout(x, params, c().step_params, c().rows_per_sample), what + " in place");
  }
}

/// Rows of a larger value lose the elements that the larger value loses.
TEST_P(DropoutTest, PartsHaveTheMaskOfTheWhole) {
  if (c().src.rank() < 3 || c().src[2] < 2) return;
  const ops::DropoutParams params{c().rate, 9};
  const Array x = oracle::random_uniform(c().src, "x", 1, 2);
  const std::int64_t rows = c().src[2];
  for (const std::int64_t cut : {std::int64_t{1}, rows / 2}) {
    Shape shapes[2] = {c().src, c().src};
    shapes[0][2] = cut, shapes[1][2] = rows - cut;
    const auto sources = oracle::concat_backward(x, {shapes[0], shapes[1]}, 2);
    const auto want = oracle::concat_backward(oracle::dropout(x, params, c().step_params, c().rows_per_sample),
                                              {shapes[0], shapes[1]}, 2);
    for (std::size_t part = 0; part < 2; ++part)
      for (const bool last : {false, true}) {
        const Layout layout = last ? Layout::channels_last(shapes[part]) : Layout::plain(shapes[part]);
        ops::DropoutDesc desc{params, {shapes[part], DType::f32, layout}, c().rows_per_sample};
        desc.part = {rows, part == 0 ? 0 : cut};
        const auto op = make(desc);
        if (!op) continue;
        const auto step_params = put_step_params(ctx(), c().step_params);
        const auto src = put(ctx(), sources[part], layout), dst = destination(ctx(), shapes[part], layout);
        op->forward({step_params, src, dst});
        check(dst, want[part], fmt::format("{}, part {} cut at {}", c().name, part, cut));
        op->backward_data({step_params, src, dst});
        check(dst, want[part], c().name + ", backward");
      }
  }
}

TEST_P(DropoutTest, ReadsASliceOfTheGradient) {
  if (!accepts_everything() || c().src.rank() < 2) return;
  const ops::DropoutParams params{c().rate, 5};
  Shape wide = c().src, first = c().src;
  wide[1] += 3, first[1] = 3;
  const auto step_params = put_step_params(ctx(), c().step_params);
  const Array all = oracle::random_uniform(wide, "dy", 1, 2);
  const Array dy = oracle::concat_backward(all, {first, c().src}, 1)[1];
  for (const bool channels_last : {false, true}) {
    const auto dense = [&](const Shape& s) { return channels_last ? Layout::channels_last(s) : Layout::plain(s); };
    const TensorDesc tensor{c().src, DType::f32, dense(c().src)};
    const Layout slice = Layout::strided(c().src, dense(wide).strides());
    const auto op = make(ops::DropoutDesc{params, tensor, c().rows_per_sample, slice});
    ASSERT_TRUE(op);
    const auto whole = put(ctx(), all, dense(wide)), diff_src = destination(ctx(), c().src, tensor.layout);
    const Tensor diff_dst(tensor.with(slice), whole.data<float>() + 3 * dense(wide).strides()[1]);
    const auto what = fmt::format("{} {}", c().name, tensor.layout.describe(c().src));
    run_backward_data(what, *op, {step_params, diff_dst, diff_src});
    check(diff_src, oracle::dropout(dy, params, c().step_params, c().rows_per_sample), what);
    const auto src = put(ctx(), dy, tensor.layout), dst = destination(ctx(), c().src, tensor.layout);
    run_forward(what, *op, {step_params, src, dst});
    check(dst, oracle::dropout(dy, params, c().step_params, c().rows_per_sample), what + " forward");
  }
}

TEST_P(DropoutTest, StepIsReadFromMemory) {
  const ops::DropoutParams params{c().rate, 77};
  const auto op = make(ops::DropoutDesc{params, TensorDesc::plain(c().src), c().rows_per_sample});
  if (!op) return;
  const Array x(c().src, 1.0);
  auto now = c().step_params;
  const auto step_params = put_step_params(ctx(), now);
  const auto src = put(ctx(), x, Layout::plain(c().src)), dst = destination(ctx(), c().src, Layout::plain(c().src));
  for (int step = 0; step < 3; ++step) {
    ++now.step;
    ctx().device().copy_from_host(step_params.raw(), &now, sizeof now);
    op->forward({step_params, src, dst});
    check(dst, oracle::dropout(x, params, now, c().rows_per_sample), fmt::format("{} at step {}", c().name, now.step));
  }
}

INSTANTIATE_TEST_SUITE_P(Dropout, DropoutTest, ::testing::ValuesIn(on_every_context(dropout_cases())), CaseName());

TEST(Dropout, OracleKeepsTheRightShareAndTheMean) {
  const Array ones(Shape{100, 1000}, 1.0);
  for (const float rate : {0.1f, 0.5f, 0.8f}) {
    const Array y = oracle::dropout(ones, {rate, 3}, {.seed = 4, .step = 5});
    double kept = 0, total = 0;
    for (double v : y.data) {
      kept += v != 0;
      total += v;
    }
    EXPECT_NEAR(kept / 1e5, 1 - rate, 5e-3 + 1e-3);
    EXPECT_NEAR(total / 1e5, 1, 3e-2);
  }
}

TEST(Dropout, MaskBelongsToTheSampleNotToTheRank) {
  // Two ranks with two samples each see what one rank with four sees.
  const ops::DropoutParams params{0.5f, 3};
  const Array ones(Shape{4, 50}, 1.0), half(Shape{2, 50}, 1.0);
  const Array whole = oracle::dropout(ones, params, {.seed = 4, .step = 5});
  const Array second = oracle::dropout(half, params, {.seed = 4, .step = 5, .sample_offset = 2});
  EXPECT_TRUE(std::equal(second.data.begin(), second.data.end(), whole.data.begin() + 100));
}

}  // namespace
}  // namespace keelson::testing
