#include <cmath>
#include <limits>

#include "engine/base/philox.hpp"
#include "engine/ops/embedding.hpp"
#include "engine/tensor/half.hpp"
#include "tests/ops/op_test.hpp"

/// Values in bf16 and f16: kernels read them, compute in f32 and round once, so that with operands that the type holds
/// exactly a result is within half a unit of its last place. Recurrent cells and products have theirs in their own
/// files.
namespace keelson::testing {
namespace {

using ops::EltwiseKind;
using ops::PoolKind;
using ops::Role;
using ops::Verb;

struct LowCase {
  std::string name, about;
  DType type;
};

const std::vector<LowCase> cases{{"bf16", "8 bits of exponent", DType::bf16},
                                 {"f16", "5 bits of exponent", DType::f16}};

/// Extents that fill what a thread moves at once, and extents that do not.
const Shape short_shapes[] = {{1}, {3, 5}, {4, 64}, {2, 3, 5, 7}, {2, 16, 3, 2}, {1, 24, 3, 4, 5}};

class LowPrecisionTest : public CaseTest<LowCase> {
 protected:
  DType type() const { return c().type; }
  TensorDesc desc(const Shape& s, const Layout& l) const { return {s, type(), l}; }
  Array some(const Shape& s, const std::string& name, double low = -1, double high = 1) const {
    return rounded(oracle::random_uniform(s, name, low, high), type());
  }
  Tensor put_low(const Array& a, const Layout& l) { return put(ctx(), a, l, type()); }
  Tensor empty(const Shape& s, const Layout& l) { return destination(ctx(), s, l, type()); }

  template <class Check>
  void on_every_layout(Check check) {
    for (const auto& shape : short_shapes)
      for (const auto choice : {LayoutChoice::plain, LayoutChoice::channels_last})
        if (const auto layout = layout_of(ctx(), choice, shape))
          check(shape, *layout, fmt::format("{} {} {}", c().name, to_string(shape), to_string(choice)));
  }
};

/// The bits as the types' definition has them, from and to f32 and the other 16-bit type, through every layout.
TEST_P(LowPrecisionTest, ReorderConverts) {
  const auto other = type() == DType::bf16 ? DType::f16 : DType::bf16;
  on_every_layout([&](const Shape& shape, const Layout& layout, const std::string& what) {
    Array x = oracle::random_uniform(shape, "x", -300, 300);
    x[0] = std::numeric_limits<double>::quiet_NaN();
    if (x.elements() > 2) x[1] = 1e-6, x[2] = -std::numeric_limits<double>::infinity();
    const auto plain = Layout::plain(shape);
    const auto narrow = make(ops::ReorderDesc{TensorDesc::plain(shape), desc(shape, layout)});
    const auto swap = make(ops::ReorderDesc{desc(shape, layout), {shape, other, plain}});
    const auto same = make(ops::ReorderDesc{desc(shape, layout), desc(shape, plain)});
    const auto widen = make(ops::ReorderDesc{desc(shape, layout), TensorDesc::plain(shape)});
    if (!narrow || !swap || !same || !widen) return;
    const auto low = empty(shape, layout), swapped = destination(ctx(), shape, plain, other),
               straight = empty(shape, plain), wide = destination(ctx(), shape, plain);
    const auto extra = [&](ops::Reorder& r) { return scratch(ctx(), r.scratch_bytes(Verb::forward)); };
    const auto s1 = extra(*narrow), s2 = extra(*swap), s3 = extra(*same), s4 = extra(*widen);
    const auto src = put(ctx(), x, plain);
    run_forward(what, *narrow, {src, low, s1});
    run_forward(what, *swap, {low, swapped, s2});
    run_forward(what, *same, {low, straight, s3});
    run_forward(what, *widen, {low, wide, s4});
    const Array want = rounded(x, type());
    EXPECT_TRUE(close(get(ctx(), wide), want, what, exact));
    EXPECT_TRUE(close(get(ctx(), swapped), rounded(want, other), what + " to the other", exact));
    const auto bytes = raw_bytes(ctx(), straight);
    for (std::int64_t i = 1; i < x.elements(); ++i) {
      const auto f = static_cast<float>(x[i]);
      const std::uint16_t bits = type() == DType::bf16 ? to_bf16(f).bits : to_f16(f).bits;
      const auto at = static_cast<std::size_t>(2 * i);
      EXPECT_EQ(bytes[at] | bytes[at + 1] << 8, bits) << what << " " << f;
    }
  });
}

TEST_P(LowPrecisionTest, Eltwise) {
  const ops::EltwiseParams functions[] = {
      {EltwiseKind::identity, 0, 0}, {EltwiseKind::relu, 0, 0},    {EltwiseKind::leaky_relu, 0.3f},
      {EltwiseKind::tanh, 0, 0},     {EltwiseKind::sigmoid, 0, 0}, {EltwiseKind::gelu, 0, 0},
      {EltwiseKind::silu, 0, 0},     {EltwiseKind::elu, 1, 0},     {EltwiseKind::softplus, 0, 0},
      {EltwiseKind::linear, -2, 3},  {EltwiseKind::abs},           {EltwiseKind::exp},
      {EltwiseKind::power, 2}};
  for (const auto& p : functions)
    on_every_layout([&](const Shape& shape, const Layout& layout, std::string what) {
      what += " " + to_string(p);
      const auto op = make(ops::EltwiseDesc{p, desc(shape, layout)});
      if (!op) return;
      const Array x = some(shape, "x", -6, 6), dy = some(shape, "dy");
      const auto src = put_low(x, layout), dst = empty(shape, layout), diff_dst = put_low(dy, layout),
                 diff_src = empty(shape, layout);
      run_forward(what, *op, {src, dst});
      check(dst, oracle::eltwise_forward(x, p), what);
      const auto saved = ops::derivative_from_dst(p) ? dst : src;
      run_backward_data(what, *op, {diff_dst, saved, diff_src});
      check(diff_src, oracle::eltwise_backward(dy, x, p), what + " diff_src");
      op->backward_data({diff_dst, saved, diff_dst});
      EXPECT_EQ(raw_bytes(ctx(), diff_dst), raw_bytes(ctx(), diff_src)) << what << " in place";
    });
}

TEST_P(LowPrecisionTest, SumRoundsOnce) {
  for (const int count : {1, 2, 3, 9})
    on_every_layout([&](const Shape& shape, const Layout& layout, std::string what) {
      what += fmt::format(" x {}", count);
      const auto op = make(ops::SumDesc::alike(desc(shape, layout), count));
      if (!op) return;
      std::vector<Array> xs;
      std::vector<Tensor> srcs;
      for (int i = 0; i < count; ++i) {
        xs.push_back(some(shape, fmt::format("x{}", i)));
        srcs.push_back(put_low(xs.back(), layout));
      }
      const auto dst = empty(shape, layout);
      run_forward(what, *op, {srcs, dst});
      check(dst, oracle::sum(xs), what);
      op->forward({srcs, srcs[0]});
      check(srcs[0], oracle::sum(xs), what + " in place");
    });
}

TEST_P(LowPrecisionTest, Concat) {
  for (const int axis : {0, 1, 3})
    for (const bool channels_last : {false, true}) {
      const auto layout = [&](const Shape& s) { return channels_last ? Layout::channels_last(s) : Layout::plain(s); };
      std::vector<Shape> parts(3, Shape{2, 8, 3, 5});
      parts[1][axis] = 4, parts[2][axis] = 1;
      const Shape joined = ops::concat_dst_shape(parts, axis);
      ops::ConcatDesc d;
      d.axis = axis;
      d.dst = desc(joined, layout(joined));
      for (const auto& s : parts) d.srcs.push_back(desc(s, layout(s)));
      const auto op = make(d);
      if (!op) continue;
      std::vector<Array> xs;
      std::vector<Tensor> srcs;
      for (const auto& s : parts) {
        xs.push_back(some(s, fmt::format("x{}", xs.size())));
        srcs.push_back(put_low(xs.back(), layout(s)));
      }
      const auto dst = empty(joined, d.dst.layout);
      const auto what = fmt::format("{} axis {}{}", c().name, axis, channels_last ? " channels-last" : "");
      run_forward(what, *op, {srcs, dst});
      check(dst, oracle::concat(xs, axis), what, exact);
    }
}

TEST_P(LowPrecisionTest, Dropout) {
  const ops::StepParams now{.seed = 7, .step = 3, .sample_offset = 5};
  on_every_layout([&](const Shape& shape, const Layout& layout, const std::string& what) {
    const ops::DropoutParams p{0.4f, philox::stream_of("low")};
    const auto op = make(ops::DropoutDesc{p, desc(shape, layout)});
    if (!op) return;
    const Array x = some(shape, "x", 1, 2);
    const auto state = put_step_params(ctx(), now), src = put_low(x, layout), dst = empty(shape, layout);
    run_forward(what, *op, {state, src, dst});
    check(dst, oracle::dropout(x, p, now), what);
    run_backward_data(what, *op, {state, src, dst});
    check(dst, oracle::dropout(x, p, now), what + " backward");
  });
}

TEST_P(LowPrecisionTest, Pool) {
  struct Window {
    Shape src, kernel, stride, pad;
  };
  // Whole packs of channels, a rest of channels, windows that overlap, more elements in a window than a byte counts.
  const Window windows[] = {{{2, 16, 6, 4, 8}, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}},
                            {{1, 12, 5, 7, 6}, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}},
                            {{2, 24, 7, 7}, {3, 3}, {2, 2}, {1, 1}},
                            {{1, 8, 20, 18}, {17, 16}, {2, 1}, {0, 0}}};
  for (const auto& w : windows)
    for (const auto kind : {PoolKind::max, PoolKind::average})
      for (const auto choice : {LayoutChoice::plain, LayoutChoice::channels_last}) {
        const auto layout = *layout_of(ctx(), choice, w.src);
        const ops::PoolParams p{kind, w.kernel, w.stride, w.pad, w.pad};
        const Shape pooled = ops::pool_dst_shape(w.src, p);
        const auto op = make(ops::PoolDesc{p, desc(w.src, layout), desc(pooled, Layout::any())});
        if (!op) continue;
        const auto what = fmt::format("{} {} {}", c().name, to_string(w.src), to_string(choice));
        Array x = rounded(oracle::random_integers(w.src, "x", -60, 60), type());
        const Array dy = some(pooled, "dy");
        const auto src = put_low(x, layout), dst = empty(pooled, op->layout(Verb::forward, Role::dst)),
                   diff_src = empty(w.src, layout),
                   diff_dst = put_low(dy, op->layout(Verb::backward_data, Role::diff_dst)),
                   workspace = scratch(ctx(), op->workspace_bytes()),
                   extra = scratch(ctx(), op->scratch_bytes(Verb::backward_data));
        run_forward(what, *op, {src, dst, workspace});
        check(dst, oracle::pool_forward(x, p), what);
        run_backward_data(what, *op, {diff_dst, workspace, diff_src, extra});
        check(diff_src, oracle::pool_backward(dy, x, p), what + " diff_src");
        if (kind == PoolKind::average) continue;
        x[x.elements() / 2] = std::numeric_limits<double>::quiet_NaN();
        op->forward({put_low(x, layout), dst, workspace});
        check(dst, oracle::pool_forward(x, p), what + " with a NaN", exact);
      }
}

TEST_P(LowPrecisionTest, EmbeddingWritesAndReadsLowValues) {
  for (const std::int64_t width : {1, 33, 64}) {
    const Shape table{50, width}, result{90, width};
    const Array numbers = oracle::random_integers({6, 15}, "ids", -1, 50), w = oracle::random_uniform(table, "w"),
                dy = some(result, "dy");
    const auto op = make(ops::EmbeddingDesc{TensorDesc::plain(numbers.shape, DType::s32), TensorDesc::plain(table)});
    if (!op) return;
    const auto plain = Layout::plain(result);
    const auto ids = put_classes(ctx(), numbers), weights = put(ctx(), w, Layout::plain(table)),
               dst = empty(result, plain);
    run_forward("forward", *op, {ids, weights, dst});
    check(dst, rounded(oracle::embedding_forward(numbers, w), type()), c().name, exact);

    const auto diff_dst = put_low(dy, plain), diff_rows = destination(ctx(), result, plain);
    const auto rows = put_classes(ctx(), Array(Shape{result[0]}, 77.0));
    const auto extra = scratch(ctx(), op->scratch_bytes(Verb::backward_weights));
    run_backward_weights("backward", *op, {ids, diff_dst, rows, diff_rows, extra});
    const auto add = make(ops::AddRowsDesc{TensorDesc::plain(result), TensorDesc::plain(table), false});
    const auto whole = destination(ctx(), table, Layout::plain(table));
    add->forward({rows, diff_rows, whole});
    check(whole, oracle::embedding_backward(numbers, dy, table), c().name + " gradient");
  }
}

INSTANTIATE_TEST_SUITE_P(LowPrecision, LowPrecisionTest, ::testing::ValuesIn(on_every_context(cases)), CaseName());

TEST(LowPrecision, OperandsOfTwoTypesAreDeclined) {
  auto& context = testing::context("kokkos");
  const Shape s{2, 8, 4, 4}, half{2, 8, 2, 2}, both{2, 16, 4, 4};
  const ops::PoolParams p{PoolKind::max, {2, 2}, {2, 2}, {0, 0}, {0, 0}};
  EXPECT_EQ(context.try_make(ops::PoolDesc{p, TensorDesc::plain(s, DType::bf16), TensorDesc::plain(half)}), nullptr);
  ops::ConcatDesc d;
  d.srcs = {TensorDesc::plain(s, DType::bf16), TensorDesc::plain(s)};
  d.dst = TensorDesc::plain(both);
  EXPECT_EQ(context.try_make(d), nullptr);
  EXPECT_EQ(context.try_make(ops::ReorderDesc{TensorDesc::plain(s, DType::s32), TensorDesc::plain(s, DType::bf16)}),
            nullptr);
}

}  // namespace
}  // namespace keelson::testing
