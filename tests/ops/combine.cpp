#include "engine/ops/combine.hpp"

#include <cmath>
#include <limits>

#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

using ops::Role;
using ops::Verb;

/// The layouts of a context for one shape.
std::vector<Layout> layouts(Context& context, const Shape& shape) {
  std::vector<Layout> list;
  for (const auto choice : {LayoutChoice::plain, LayoutChoice::channels_last, LayoutChoice::producer})
    if (const auto l = layout_of(context, choice, shape)) list.push_back(*l);
  return list;
}

struct ShapeCase {
  std::string name, about;
  Shape shape;
};

std::vector<ShapeCase> shape_cases() {
  return {
      {"scalar", "one element", {1}},
      {"vector", "", {37}},
      {"matrix", "odd extents", {3, 17}},
      {"image", "channels no multiple of 16", {2, 3, 5, 7}},
      {"wide_image", "blocks", {2, 32, 4, 3}},
      {"volume", "5-D, one sample", {1, 17, 3, 5, 4}},
      {"pixel", "extents of 1 at the end", {4, 6, 1, 1, 1}},
  };
}

class ReorderTest : public CaseTest<ShapeCase> {};

TEST_P(ReorderTest, EveryLayoutToEveryOther) {
  const Array x = oracle::random_distinct(c().shape, "x");
  auto list = layouts(ctx(), c().shape);
  // With gaps between the rows: a slice of something larger.
  Shape gaps = Layout::plain(c().shape).strides();
  for (int i = 0; i + 1 < gaps.rank(); ++i) gaps[i] *= 2;
  if (accepts_everything()) list.push_back(Layout::strided(c().shape, gaps));
  for (const auto& from : list)
    for (const auto& to : list) {
      const auto what = fmt::format("{}: {} -> {}", c().name, from.describe(c().shape), to.describe(c().shape));
      const auto op = make(ops::ReorderDesc{{c().shape, DType::f32, from}, {c().shape, DType::f32, to}});
      if (!op) continue;
      const auto src = put(ctx(), x, from), dst = destination(ctx(), c().shape, to);
      const auto extra = scratch(ctx(), op->scratch_bytes(Verb::forward));
      run_forward(what, *op, {src, dst, extra});
      check(dst, x, what, exact);
    }
}

TEST_P(ReorderTest, ConvertsToDoubleAndBack) {
  const Array x = oracle::random_distinct(c().shape, "x");
  const auto f32 = TensorDesc::plain(c().shape), f64 = TensorDesc::plain(c().shape, DType::f64);
  const auto widen = make(ops::ReorderDesc{f32, f64}), narrow = make(ops::ReorderDesc{f64, f32});
  if (!widen || !narrow) return;
  const auto src = put(ctx(), x, f32.layout), wide = put_f64(ctx(), Array(c().shape)),
             back = destination(ctx(), c().shape, f32.layout);
  widen->forward({src, wide, scratch(ctx(), widen->scratch_bytes(Verb::forward))});
  EXPECT_TRUE(close(get_f64(ctx(), wide), x, c().name + " as f64", exact));
  narrow->forward({wide, back, scratch(ctx(), narrow->scratch_bytes(Verb::forward))});
  check(back, x, c().name + " as f32 again", exact);
}

TEST_P(ReorderTest, CarriesNanAndInfinity) {
  Array x = oracle::random_distinct(c().shape, "x");
  x[0] = std::numeric_limits<double>::quiet_NaN();
  x[x.elements() - 1] = -std::numeric_limits<double>::infinity();
  for (const auto& layout : layouts(ctx(), c().shape)) check(put(ctx(), x, layout), x, c().name, exact);
}

INSTANTIATE_TEST_SUITE_P(Reorder, ReorderTest, ::testing::ValuesIn(on_every_context(shape_cases())), CaseName());

class SumTest : public CaseTest<ShapeCase> {};

TEST_P(SumTest, MatchesOracleAlsoInPlace) {
  for (const auto& layout : layouts(ctx(), c().shape))
    for (const int count : {2, 3, 5}) {
      const auto what = fmt::format("{} x {} {}", count, c().name, layout.describe(c().shape));
      const auto op = make(ops::SumDesc::alike({c().shape, DType::f32, layout}, count));
      if (!op) continue;
      std::vector<Array> xs;
      std::vector<Tensor> srcs;
      for (int i = 0; i < count; ++i) {
        xs.push_back(oracle::random_uniform(c().shape, fmt::format("x{}", i)));
        srcs.push_back(put(ctx(), xs.back(), layout));
      }
      const auto dst = destination(ctx(), c().shape, layout);
      run_forward(what, *op, {srcs, dst});
      check(dst, oracle::sum(xs), what);
      op->forward({srcs, srcs[0]});
      check(srcs[0], oracle::sum(xs), what + " in place");

      xs[1][xs[1].elements() / 2] = std::numeric_limits<double>::quiet_NaN();
      srcs[0] = put(ctx(), xs[0], layout);
      srcs[1] = put(ctx(), xs[1], layout);
      op->forward({srcs, dst});
      check(dst, oracle::sum(xs), what + " with a NaN");
    }
}

class ProductTest : public CaseTest<ShapeCase> {};

/// The product in float64.
Array product(const std::vector<Array>& xs) {
  Array all = xs[0];
  for (std::size_t k = 1; k < xs.size(); ++k)
    for (std::int64_t i = 0; i < all.elements(); ++i) all[i] *= xs[k][i];
  return all;
}

TEST_P(ProductTest, MatchesOracleAlsoInPlace) {
  for (const auto& layout : layouts(ctx(), c().shape))
    for (const DType type : {DType::f32, DType::bf16, DType::f16})
      for (const int count : {2, 3, 11}) {
        if (layout.is_opaque() && type != DType::f32) continue;
        const auto what = fmt::format("{} x {} {} {}", count, c().name, layout.describe(c().shape), to_string(type));
        const auto op = make(ops::ProductDesc{count, {c().shape, type, layout}});
        if (!op) continue;
        std::vector<Array> xs;
        std::vector<Tensor> srcs;
        for (int i = 0; i < count; ++i) {
          xs.push_back(rounded(oracle::random_uniform(c().shape, fmt::format("x{}", i), 0.7, 1.3), type));
          srcs.push_back(put(ctx(), xs.back(), layout, type));
        }
        const auto dst = destination(ctx(), c().shape, layout, type);
        run_forward(what, *op, {srcs, dst});
        const Tolerance t = tolerance(type);
        check(dst, product(xs), what, t);

        xs[1][xs[1].elements() / 2] = std::numeric_limits<double>::quiet_NaN();
        srcs[1] = put(ctx(), xs[1], layout, type);
        op->forward({srcs, dst});
        check(dst, product(xs), what + " with a NaN", t);
      }
}

INSTANTIATE_TEST_SUITE_P(Product, ProductTest, ::testing::ValuesIn(on_every_context(shape_cases())), CaseName());

/// Every third element of a row, every second row: a part of something larger, in the order of `layout`.
Layout with_gaps(const Shape& shape, const Layout& layout) {
  Shape strides = layout.strides();
  for (int i = 0; i < shape.rank(); ++i) strides[i] *= strides[i] == 1 ? 3 : 6;
  return Layout::strided(shape, strides);
}

/// A slice of the channels of something twice as deep, beginning at a channel that no vector begins at.
struct ChannelSlice {
  Tensor whole, part;
  Array values;  ///< of the part
};
ChannelSlice channel_slice(Context& ctx, const Shape& shape, bool channels_last, const std::string& name, DType type) {
  Shape wide = shape, first = shape;
  wide[1] = 2 * shape[1] + 1, first[1] = 1;
  const Layout layout = channels_last ? Layout::channels_last(wide) : Layout::plain(wide);
  const Array all = rounded(oracle::random_uniform(wide, name), type);
  ChannelSlice s;
  s.values = oracle::concat_backward(all, {first, shape, shape}, 1)[1];
  s.whole = put(ctx, all, layout, type);
  const std::int64_t offset = layout.strides()[1];
  s.part = Tensor({shape, type, Layout::strided(shape, layout.strides())},
                  static_cast<std::byte*>(s.whole.raw()) + static_cast<std::size_t>(offset) * size_of(type));
  return s;
}

TEST_P(SumTest, ReadsEachTermWhereItLies) {
  if (!accepts_everything()) return;
  const Shape& shape = c().shape;
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const bool channels_last : {false, true})
      for (const int count : {2, 3, 9, 16}) {
        const Layout layout = channels_last ? Layout::channels_last(shape) : Layout::plain(shape);
        const Layout other = channels_last ? Layout::plain(shape) : Layout::channels_last(shape);
        ops::SumDesc d{{}, {shape, type, layout}};
        std::vector<Array> xs;
        std::vector<Tensor> srcs;
        std::vector<ChannelSlice> slices;
        for (int i = 0; i < count; ++i) {
          const std::string name = fmt::format("x{}", i);
          if (i % 4 == 1 && shape.rank() > 1) {
            slices.push_back(channel_slice(ctx(), shape, channels_last, name, type));
            xs.push_back(slices.back().values);
            srcs.push_back(slices.back().part);
          } else {
            xs.push_back(rounded(oracle::random_uniform(shape, name), type));
            srcs.push_back(put(ctx(), xs.back(),
                               i % 4 == 0   ? layout
                               : i % 4 == 2 ? with_gaps(shape, layout)
                                            : other,
                               type));
          }
          d.srcs.push_back(srcs.back().desc());
        }
        const auto what = fmt::format("{} x {} {} {}", count, c().name, to_string(type), layout.describe(shape));
        const auto op = make(d);
        ASSERT_TRUE(op) << what;
        const auto dst = destination(ctx(), shape, layout, type);
        run_forward(what, *op, {srcs, dst});
        check(dst, oracle::sum(xs), what);
        op->forward({srcs, srcs[0]});
        EXPECT_EQ(raw_bytes(ctx(), srcs[0]), raw_bytes(ctx(), dst)) << what << " in place";
      }
}

INSTANTIATE_TEST_SUITE_P(Sum, SumTest, ::testing::ValuesIn(on_every_context(shape_cases())), CaseName());

struct ConcatCase {
  std::string name, about;
  std::vector<Shape> srcs;
  int axis;
};

class ConcatTest : public CaseTest<ConcatCase> {};

TEST_P(ConcatTest, MatchesOracle) {
  const Shape joined = ops::concat_dst_shape(c().srcs, c().axis);
  for (const bool channels_last : {false, true}) {
    const auto layout = [&](const Shape& s) { return channels_last ? Layout::channels_last(s) : Layout::plain(s); };
    ops::ConcatDesc d;
    d.axis = c().axis;
    d.dst = {joined, DType::f32, layout(joined)};
    for (const auto& s : c().srcs) d.srcs.push_back({s, DType::f32, layout(s)});
    const auto op = make(d);
    if (!op) continue;

    std::vector<Array> xs;
    std::vector<Tensor> srcs;
    for (const auto& s : c().srcs) {
      xs.push_back(oracle::random_uniform(s, fmt::format("x{}", xs.size())));
      srcs.push_back(put(ctx(), xs.back(), layout(s)));
    }
    const auto what = c().name + (channels_last ? " channels-last" : " plain");
    const auto dst = destination(ctx(), joined, d.dst.layout);
    run_forward(what, *op, {srcs, dst});
    check(dst, oracle::concat(xs, c().axis), what, exact);
  }
}

INSTANTIATE_TEST_SUITE_P(Concat, ConcatTest,
                         ::testing::ValuesIn(on_every_context<ConcatCase>({
                             {"one", "a single input", {{2, 3, 4}}, 1},
                             {"channels", "unequal channels", {{2, 3, 4, 5}, {2, 1, 4, 5}, {2, 7, 4, 5}}, 1},
                             {"channels_3d", "5-D", {{1, 4, 3, 2, 5}, {1, 16, 3, 2, 5}}, 1},
                             {"batch", "axis 0", {{1, 3, 5}, {4, 3, 5}}, 0},
                             {"last", "the innermost axis", {{2, 3, 5}, {2, 3, 1}, {2, 3, 2}}, 2},
                             {"features", "a matrix", {{3, 5}, {3, 8}}, 1},
                         })),
                         CaseName());

struct SoftmaxCase {
  std::string name, about;
  Shape src;
  int axis;
};

class SoftmaxTest : public CaseTest<SoftmaxCase> {};

TEST_P(SoftmaxTest, MatchesOracleBothWays) {
  const Array dy = oracle::random_uniform(c().src, "dy");
  // Ordinary values; values whose exponentials overflow; all equal.
  const Array inputs[] = {oracle::random_uniform(c().src, "x", -3, 3), oracle::random_uniform(c().src, "x", 900, 1000),
                          Array(c().src, -5.0)};
  for (const auto choice : {LayoutChoice::plain, LayoutChoice::channels_last}) {
    const auto layout = layout_of(ctx(), choice, c().src);
    if (!layout) continue;
    const auto op = make(ops::SoftmaxDesc{{c().src, DType::f32, *layout}, c().axis});
    if (!op) continue;
    for (const Array& x : inputs) {
      const auto what = fmt::format("{} {} x[0] = {}", c().name, to_string(choice), x[0]);
      const Array want = oracle::softmax_forward(x, c().axis);
      const auto src = put(ctx(), x, *layout), dst = destination(ctx(), c().src, *layout);
      run_forward(what, *op, {src, dst});
      check(dst, want, what);
      const auto diff_dst = put(ctx(), dy, *layout), diff_src = destination(ctx(), c().src, *layout);
      run_backward_data(what, *op, {diff_dst, dst, diff_src});
      // Differences of numbers of the size of dst.
      EXPECT_TRUE(close(get(ctx(), diff_src), oracle::softmax_backward(dy, get(ctx(), dst), c().axis),
                        what + " diff_src", {1e-5, 1e-4}));
      op->forward({src, src});
      check(src, want, what + " in place");
    }
    Array x = inputs[0];
    x[x.elements() / 2] = std::numeric_limits<double>::quiet_NaN();
    const auto src = put(ctx(), x, *layout), dst = destination(ctx(), c().src, *layout);
    op->forward({src, dst});
    // The NaN stays where it was and leaves other groups alone; what it does to its own group is the backend's affair.
    Array got = get(ctx(), dst), want = oracle::softmax_forward(x, c().axis);
    EXPECT_TRUE(std::isnan(got[x.elements() / 2])) << c().name;
    for (std::int64_t i = 0; i < want.elements(); ++i)
      if (std::isnan(want[i])) got[i] = want[i] = 0;
    EXPECT_TRUE(close(got, want, c().name + " with a NaN elsewhere"));
  }
}

INSTANTIATE_TEST_SUITE_P(Softmax, SoftmaxTest,
                         ::testing::ValuesIn(on_every_context<SoftmaxCase>({
                             {"rows", "the last axis", {5, 33}, 1},
                             {"one_class", "always 1", {3, 1}, 1},
                             {"columns", "axis 0", {7, 4}, 0},
                             {"channels", "a class for each pixel", {2, 5, 3, 4}, 1},
                             {"depth", "the last of five", {1, 3, 2, 4, 6}, 4},
                         })),
                         CaseName());

}  // namespace
}  // namespace keelson::testing
