#include "engine/ops/pool.hpp"

#include <limits>

#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

using ops::PoolKind;
using ops::Role;
using ops::Verb;

struct PoolCase {
  std::string name, about;
  Shape src;
  ops::PoolParams params;
};

ops::PoolParams pool_window(PoolKind kind, const Shape& kernel, const Shape& stride, const Shape& begin = {},
                            const Shape& end = {}, bool count_padding = false) {
  const Shape none = Shape::filled(kernel.rank(), 0);
  return {kind, kernel, stride, begin.empty() ? none : begin, end.empty() ? none : end, count_padding};
}

std::vector<PoolCase> pool_cases() {
  struct Geometry {
    std::string name, about;
    Shape src, kernel, stride, begin, end;
  };
  const Geometry geometries[] = {
      {"one_element", "a window of 1", {1, 1, 1, 1}, {1, 1}, {1, 1}, {}, {}},
      {"halves_2d", "2/2, even extents", {2, 4, 8, 6}, {2, 2}, {2, 2}, {}, {}},
      {"odd_2d", "2/2, the last row and column are dropped", {1, 3, 7, 9}, {2, 2}, {2, 2}, {}, {}},
      {"overlapping_2d", "3/2 with padding, blocks", {2, 16, 7, 7}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
      {"asymmetric_2d", "unequal windows and padding, 17 channels", {1, 17, 6, 5}, {3, 2}, {1, 3}, {2, 0}, {1, 1}},
      {"global_2d", "the window is the input", {2, 5, 4, 3}, {4, 3}, {1, 1}, {}, {}},
      {"gaps_2d", "elements that no window reads", {1, 2, 9, 10}, {2, 2}, {3, 4}, {}, {}},
      {"rest_3d", "2/2, whole packs of channels and cells with a rest", {2, 8, 5, 4, 7}, {2, 2, 2}, {2, 2, 2}, {}, {}},
      {"rest_2d", "the same in 2-D", {1, 16, 5, 7}, {2, 2}, {2, 2}, {}, {}},
      {"end_padding_2d", "2/2, the last windows reach over the end", {1, 8, 5, 6}, {2, 2}, {2, 2}, {0, 0}, {1, 0}},
      {"halves_3d", "CosmoFlow's 2/2, blocks", {1, 32, 6, 4, 8}, {2, 2, 2}, {2, 2, 2}, {}, {}},
      {"odd_3d", "2/2 on odd extents", {2, 3, 5, 7, 3}, {2, 2, 2}, {2, 2, 2}, {}, {}},
      {"padded_3d", "3/2 with padding at one side", {1, 4, 5, 6, 7}, {3, 3, 3}, {2, 2, 2}, {1, 0, 1}, {0, 1, 1}},
      {"large_3d",
       "operands larger than what a library may allocate for a call",
       {1, 16, 11, 12, 13},
       {2, 2, 2},
       {2, 2, 2},
       {},
       {}},
      {"one_dim", "1-D", {2, 3, 11}, {3}, {2}, {1}, {0}},
      {"columns_2d", "windows of one column, 12 channels", {2, 12, 7, 5}, {2, 1}, {2, 1}, {}, {}},
      {"overlapping_columns_2d", "the same, overlapping, with padding", {2, 3, 8, 5}, {3, 1}, {2, 1}, {1, 0}, {1, 0}},
  };
  std::vector<PoolCase> cases;
  for (const auto& g : geometries) {
    const auto add = [&](const std::string& prefix, PoolKind kind, bool count_padding) {
      cases.push_back(
          {prefix + g.name, g.about, g.src, pool_window(kind, g.kernel, g.stride, g.begin, g.end, count_padding)});
    };
    add("max_", PoolKind::max, false);
    add("average_", PoolKind::average, false);
    if (!g.begin.empty()) add("average_counting_padding_", PoolKind::average, true);
  }
  return cases;
}

class PoolTest : public CaseTest<PoolCase> {
 protected:
  /// Runs both verbs with this source and result layout and compares.
  void check_both(const Layout& src_layout, const Layout& dst_layout, const Array& x, const std::string& what,
                  bool backward = true) {
    SCOPED_TRACE(what);
    const Shape dst_shape = ops::pool_dst_shape(c().src, c().params);
    const ops::PoolDesc d{c().params, {c().src, DType::f32, src_layout}, {dst_shape, DType::f32, dst_layout}, true};
    const auto op = make(d);
    if (!op) return;
    EXPECT_EQ(op->layout(Verb::forward, Role::src), src_layout);
    EXPECT_EQ(op->layout(Verb::backward_data, Role::diff_src), src_layout) << "gradients lie as their values do";

    const auto src = put(ctx(), x, src_layout);
    const auto dst = destination(ctx(), dst_shape, op->layout(Verb::forward, Role::dst));
    const auto workspace = scratch(ctx(), op->workspace_bytes());
    run_forward(what + " forward", *op, {src, dst, workspace});
    check(dst, oracle::pool_forward(x, c().params), what + " dst");
    if (!backward) return;

    const Array dy = oracle::random_uniform(dst_shape, "diff_dst");
    const auto diff_dst = put(ctx(), dy, op->layout(Verb::backward_data, Role::diff_dst));
    const auto diff_src = destination(ctx(), c().src, op->layout(Verb::backward_data, Role::diff_src));
    const auto extra = scratch(ctx(), op->scratch_bytes(Verb::backward_data));
    run_backward_data(what + " backward", *op, {diff_dst, workspace, diff_src, extra});
    check(diff_src, oracle::pool_backward(dy, x, c().params), what + " diff_src");
  }

  void check_layouts(const Array& x, const std::string& about, bool backward = true) {
    for (const auto choice : {LayoutChoice::plain, LayoutChoice::channels_last, LayoutChoice::producer}) {
      const auto layout = layout_of(ctx(), choice, c().src);
      if (!layout) continue;
      const auto what = fmt::format("{}, {}, {}", c().name, about, to_string(choice));
      check_both(*layout, Layout::any(), x, what, backward);
      const Shape dst_shape = ops::pool_dst_shape(c().src, c().params);
      if (choice == LayoutChoice::plain) check_both(*layout, Layout::plain(dst_shape), x, what + " to plain", backward);
      if (choice == LayoutChoice::channels_last)
        check_both(*layout, Layout::channels_last(dst_shape), x, what + " to channels-last", backward);
    }
  }
};

TEST_P(PoolTest, MatchesOracle) { check_layouts(oracle::random_distinct(c().src, "src"), c().about); }

TEST_P(PoolTest, FirstOfEqualsWins) {
  check_layouts(oracle::random_integers(c().src, "ties", -1, 1), "ties");
  check_layouts(Array(c().src, 0.0), "zeros");
  check_layouts(Array(c().src, -2.0), "all equal and negative: padding must not win");
}

TEST_P(PoolTest, NanInTheWindowGivesNan) {
  for (const std::int64_t at : {std::int64_t{0}, c().src.elements() / 2, c().src.elements() - 1}) {
    Array x = oracle::random_distinct(c().src, "src");
    x[at] = std::numeric_limits<double>::quiet_NaN();
    check_layouts(x, fmt::format("NaN at {}", at), false);
  }
}

TEST_P(PoolTest, InfinityIsANumber) {
  Array x = oracle::random_distinct(c().src, "src");
  for (std::int64_t i = 0; i < x.elements(); i += 3) x[i] = -std::numeric_limits<double>::infinity();
  if (c().params.kind == PoolKind::max) check_layouts(x, "-inf");
}

/// Kernels for GPUs count in 32 bits unless a stride says that these might not do.
TEST_P(PoolTest, StridesOfMoreThan32Bits) {
  if (c().src[0] != 1 || !accepts_everything()) return;
  const Array x = oracle::random_distinct(c().src, "src");
  for (const auto& near : {Layout::plain(c().src), Layout::channels_last(c().src)}) {
    Shape strides = near.strides();
    strides[0] = std::int64_t{1} << 40;  // of the only sample: nothing lies there
    check_both(Layout::strided(c().src, strides), Layout::any(), x, c().name);
  }
}

TEST_P(PoolTest, InferenceNeedsNoWorkspace) {
  const Array x = oracle::random_distinct(c().src, "src");
  const Shape dst_shape = ops::pool_dst_shape(c().src, c().params);
  const ops::PoolDesc d{c().params, TensorDesc::plain(c().src), TensorDesc::plain(dst_shape), false};
  const auto op = make(d);
  if (!op) return;
  const auto src = put(ctx(), x, d.src.layout);
  const auto dst = destination(ctx(), dst_shape, d.dst.layout);
  run_forward(c().name, *op, {src, dst, {}});
  check(dst, oracle::pool_forward(x, c().params), c().name + " without workspace");
}

INSTANTIATE_TEST_SUITE_P(Pool, PoolTest, ::testing::ValuesIn(on_every_context(pool_cases())), CaseName());

}  // namespace
}  // namespace keelson::testing
