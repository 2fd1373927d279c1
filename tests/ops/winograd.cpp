#include "backends/kokkos/winograd/winograd.hpp"

#include <cmath>

#include "backends/kokkos/makers.hpp"
#include "engine/ops/pool.hpp"
#include "tests/ops/conv_runs.hpp"
#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

using ops::Verb;

struct WinogradCase {
  std::string name, about;
  Shape src;
  std::int64_t filters;
  Shape pad_begin, pad_end;
  ops::EltwiseParams activation = {};
  bool bias = true;
  std::int64_t kernel = 3;

  int spatial() const { return src.rank() - 2; }
  bool has_tile(int m) const { return kernel == 3 ? m != 3 : kernel + m == 7; }
  Shape weights() const {
    Shape s{filters, src[1]};
    for (int i = 0; i < spatial(); ++i) s.push_back(kernel);
    return s;
  }
  ops::ConvParams params() const {
    const Shape ones = Shape::filled(spatial(), 1);
    return {Shape::filled(spatial(), kernel), ones, ones, pad_begin, pad_end, 1, bias, activation};
  }
  Shape dst() const { return ops::conv_dst_shape(src, params(), filters); }
  ops::ConvDesc desc(const Layout& weights_layout) const {
    return channels_last_conv(params(), src, weights(), weights_layout);
  }
};

std::vector<WinogradCase> winograd_cases() {
  const Shape same{1, 1, 1}, same2{1, 1};
  const ops::EltwiseParams leaky{ops::EltwiseKind::leaky_relu, 0.3f};
  return {
      {"volume", "whole tiles of both sizes", {1, 32, 8, 8, 8}, 64, same, same, leaky},
      {"odd_volume", "tiles that reach beyond the result", {2, 16, 5, 7, 9}, 48, same, same},
      {"first_layer", "four channels", {1, 4, 8, 6, 10}, 32, same, same, leaky},
      {"long_first_layer", "more tiles in a row than are computed at once", {2, 4, 5, 6, 39}, 48, same, {1, 0, 1}},
      {"valid", "no zeros beside src", {1, 32, 6, 7, 8}, 16, {0, 0, 0}, {0, 0, 0}},
      {"wide", "two zeros beside src, unequal ends", {1, 16, 4, 5, 6}, 32, {2, 1, 0}, {2, 0, 1}, {}, false},
      {"small", "less than one tile", {1, 16, 1, 2, 3}, 16, same, same},
      {"image", "two dims", {1, 64, 16, 20}, 64, same2, same2, leaky},
      {"odd_image", "more tiles than a block has", {3, 48, 33, 31}, 80, same2, same2},
      {"fives", "a kernel of 5 in two dims", {1, 32, 13, 14}, 48, {2, 2}, {2, 2}, leaky, true, 5},
      {"fives_in_volume", "in three, unequal ends", {1, 16, 6, 7, 5}, 16, {2, 4, 1}, {2, 0, 3}, {}, false, 5},
      {"fours", "a kernel of 4 in two dims", {2, 32, 11, 16}, 32, {1, 1}, {2, 2}, leaky, true, 4},
      {"fours_in_volume",
       "in three, as in the SC18 paper's network",
       {1, 16, 9, 7, 8},
       32,
       {0, 0, 0},
       {0, 0, 0},
       leaky,
       true,
       4},
      {"deep_image", "many channels", {1, 256, 9, 8}, 128, same2, same2, {ops::EltwiseKind::relu}},
      {"deep_volume", "many channels in three dims", {1, 256, 4, 4, 8}, 128, same, same},
  };
}

class WinogradTest : public CaseTest<WinogradCase> {};

TEST_P(WinogradTest, ErrorIsAFewTimesThatOfADirectConvolution) {
  if (!ctx().device().has_small_caches()) GTEST_SKIP() << "for CPUs";
  const ConvOperands o(c().src, c().weights(), c().dst(), c().bias);
  for (const auto& layout : {Layout::channels_last(c().weights()), Layout::plain(c().weights())}) {
    const auto d = c().desc(layout);
    const auto direct = kokkos::make(d);
    ASSERT_TRUE(direct.primitive) << direct.unsupported_reason;
    for (const Verb v : {Verb::forward, Verb::backward_data, Verb::backward_weights}) {
      const Array want = conv_result(c().params(), v, o);
      const ConvErrors of_direct = errors_of(run_conv(ctx(), *direct.primitive, v, o), want);
      for (const int m : kokkos::winograd_sizes) {
        SCOPED_TRACE(fmt::format("{} m {}", to_string(v), m));
        const auto made = kokkos::make_winograd_conv(d, v, m);
        if (!c().has_tile(m)) {
          EXPECT_NE(made.unsupported_reason.find("the kernel is"), std::string::npos) << made.unsupported_reason;
          continue;
        }
        if (v != Verb::forward && c().src[1] % ctx().device().vector_width() != 0) {
          EXPECT_NE(made.unsupported_reason.find("multiples of"), std::string::npos) << made.unsupported_reason;
          continue;
        }
        ASSERT_TRUE(made.primitive) << made.unsupported_reason;
        expect_errors(*made.primitive, v, run_conv(ctx(), *made.primitive, v, o), want, of_direct);
      }
    }
  }
}

TEST_P(WinogradTest, PoolsItsTiles) {
  if (!ctx().device().has_small_caches()) GTEST_SKIP() << "for CPUs";
  if (c().spatial() == 3 && c().dst()[2] < 2) GTEST_SKIP() << "no window fits";
  const Shape twos = Shape::filled(c().spatial(), 2), none = Shape::filled(c().spatial(), 0);
  const ops::PoolParams pool{ops::PoolKind::max, twos, twos, none, none};
  const Shape pooled = ops::pool_dst_shape(c().dst(), pool);
  const Array x = oracle::random_uniform(c().src, "src"),
              w = oracle::random_uniform(c().weights(), "weights", -0.5, 0.5),
              b = c().bias ? oracle::random_uniform(Shape{c().filters}, "bias") : Array();
  const Array unpooled = oracle::conv_forward(x, w, b, c().params());
  const Array want = oracle::pool_forward(unpooled, pool);
  ops::ConvMaxPoolForwardDesc d{
      c().desc(Layout::channels_last(c().weights())), pool, {pooled, DType::f32, Layout::channels_last(pooled)}};
  for (const int m : kokkos::winograd_sizes) {
    SCOPED_TRACE(m);
    if (!c().has_tile(m)) continue;
    const auto made = kokkos::make_winograd_conv_max_pool(d, m);
    if (m == 3) {
      EXPECT_NE(made.unsupported_reason.find("beyond tiles of 3"), std::string::npos) << made.unsupported_reason;
      continue;
    }
    ASSERT_TRUE(made.primitive) << made.unsupported_reason;
    auto& op = *made.primitive;
    const auto dst = destination(ctx(), pooled, d.dst.layout);
    const auto argmax = scratch(ctx(), op.workspace_bytes());
    op.forward({put(ctx(), x, d.conv.src.layout), put(ctx(), w, d.conv.weights.layout),
                b.empty() ? Tensor() : put(ctx(), b, Layout::plain(b.shape)), dst, argmax,
                scratch(ctx(), op.scratch_bytes(Verb::forward))});
    const Array got = get(ctx(), dst);
    EXPECT_TRUE(close(got, want, "pooled", {1e-5, 1e-5}));
    // The element that an index names is the largest of its window, up to rounding.
    const auto* const index = static_cast<const std::uint8_t*>(argmax.raw());
    const Shape shape = c().dst();
    for (std::int64_t i = 0; i < want.elements(); ++i) {
      const Shape at = oracle::indices_of(pooled, i);
      std::int64_t window = 0;  // its number in the order of the indices: channels last
      for (int k = 0; k < at.rank(); ++k)
        if (k != 1) window = window * pooled[k] + at[k];
      const int chosen = index[window * pooled[1] + at[1]];
      ASSERT_LT(chosen, 1 << c().spatial());
      std::int64_t element = 0;
      for (int k = 0; k < at.rank(); ++k) {
        const int place = k < 2 ? 0 : chosen >> (at.rank() - 1 - k) & 1;
        element = element * shape[k] + (k < 2 ? at[k] : 2 * at[k] + place);
      }
      ASSERT_NEAR(unpooled[element], want[i], 1e-4) << i;
    }
  }
}

TEST_P(WinogradTest, UnpoolsItsTiles) {
  if (!ctx().device().has_small_caches()) GTEST_SKIP() << "for CPUs";
  const auto conv = c().params();
  const Shape weights = c().weights();
  const auto last = [](const Shape& s) { return TensorDesc{s, DType::f32, Layout::channels_last(s)}; };
  const std::vector<Shape> windows =
      c().spatial() == 3 ? std::vector<Shape>{{2, 2, 2}, {1, 3, 2}} : std::vector<Shape>{{2, 2}, {4, 3}};
  for (const Shape& window : windows) {
    bool fits = true;
    for (int i = 0; i < c().spatial(); ++i) fits = fits && window[i] <= c().dst()[2 + i];
    if (!fits) continue;
    const Shape none = Shape::filled(c().spatial(), 0);
    const ops::PoolParams pool{ops::PoolKind::max, window, window, none, none};
    const Shape pooled = ops::pool_dst_shape(c().dst(), pool);
    const Array dy = oracle::random_uniform(pooled, "diff_pooled"), y = oracle::random_distinct(c().dst(), "unpooled");
    ConvOperands o(c().src, weights, c().dst(), c().bias);
    o.dy = oracle::pool_backward(dy, y, pool);
    const auto direct = kokkos::make(c().desc(last(weights).layout));
    ASSERT_TRUE(direct.primitive) << direct.unsupported_reason;
    const auto pooling = ctx().make(ops::PoolDesc{pool, last(c().dst()), last(pooled), true});
    const auto argmax = scratch(ctx(), pooling->workspace_bytes());
    pooling->forward({put(ctx(), y, last(c().dst()).layout), destination(ctx(), pooled, last(pooled).layout), argmax});
    const auto diff_dst = put(ctx(), dy, last(pooled).layout);
    const ops::ConvMaxPoolDesc d{conv, pool, last(c().src), last(weights), last(pooled)};
    for (const int m : kokkos::winograd_sizes) {
      SCOPED_TRACE(fmt::format("windows of {}, m {}", to_string(window), m));
      auto made = kokkos::make_winograd_max_pool_backward(d, Verb::backward_weights, m);
      if (!made.primitive) {
        const bool narrow = c().src[1] % ctx().device().vector_width() != 0;
        EXPECT_TRUE(!c().has_tile(m) || narrow) << made.unsupported_reason;
        continue;
      }
      const auto expect = [&](const ops::Primitive& op, Verb v, const Tensor& got) {
        const Array want = conv_result(conv, v, o);
        expect_errors(op, v, get(ctx(), got), want, errors_of(run_conv(ctx(), *direct.primitive, v, o), want));
      };
      const auto dw = destination(ctx(), weights, last(weights).layout);
      const auto db = c().bias ? destination(ctx(), {c().filters}, Layout::plain({c().filters})) : Tensor();
      made.primitive->backward_weights({put(ctx(), o.x, last(c().src).layout), diff_dst, argmax, dw, db,
                                        scratch(ctx(), made.primitive->scratch_bytes(Verb::backward_weights))});
      expect(*made.primitive, Verb::backward_weights, dw);
      if (db) check(db, oracle::backward_bias(o.dy), "diff_bias");

      made = kokkos::make_winograd_max_pool_backward(d, Verb::backward_data, m);
      ASSERT_TRUE(made.primitive) << made.unsupported_reason;
      const auto dx = destination(ctx(), c().src, last(c().src).layout);
      made.primitive->backward_data({diff_dst, argmax, put(ctx(), o.w, last(weights).layout), dx,
                                     scratch(ctx(), made.primitive->scratch_bytes(Verb::backward_data))});
      expect(*made.primitive, Verb::backward_data, dx);
    }
  }
}

/// The products are those of f32: only the operands have been rounded.
TEST_P(WinogradTest, ReadsBf16) {
  if (!ctx().device().has_small_caches()) GTEST_SKIP() << "for CPUs";
  auto d = c().desc(Layout::channels_last(c().weights()));
  d.src.dtype = d.weights.dtype = DType::bf16;
  const Array x = rounded(oracle::random_uniform(c().src, "src"), DType::bf16),
              w = rounded(oracle::random_uniform(c().weights(), "weights", -0.5, 0.5), DType::bf16),
              b = c().bias ? oracle::random_uniform(Shape{c().filters}, "bias") : Array();
  const int m = static_cast<int>(7 - c().kernel);
  const auto made = kokkos::make_winograd_conv(d, Verb::forward, m);
  ASSERT_TRUE(made.primitive) << made.unsupported_reason;
  const auto dst = destination(ctx(), c().dst(), d.dst.layout);
  made.primitive->forward({put(ctx(), x, d.src.layout, DType::bf16), put(ctx(), w, d.weights.layout, DType::bf16),
                           b.empty() ? Tensor() : put(ctx(), b, Layout::plain(b.shape)), dst,
                           scratch(ctx(), made.primitive->scratch_bytes(Verb::forward))});
  EXPECT_TRUE(close(get(ctx(), dst), oracle::conv_forward(x, w, b, c().params()), "dst", {1e-5, 1e-5}));
}

INSTANTIATE_TEST_SUITE_P(Winograd, WinogradTest, ::testing::ValuesIn([] {
                           std::vector<OnContext<WinogradCase>> all;
                           for (const auto& c : winograd_cases()) all.push_back({c, "kokkos"});
                           return all;
                         }()),
                         CaseName());

TEST(Winograd, DeclinesWhatItCannotMake) {
  if (!context("kokkos").device().has_small_caches()) GTEST_SKIP() << "for CPUs";
  const auto why = [](auto change) {
    const WinogradCase c{"", "", {1, 16, 8, 8}, 16, {1, 1}, {1, 1}};
    auto d = c.desc(Layout::any());
    change(d);
    return kokkos::make_winograd_conv(d, Verb::forward, 2).unsupported_reason;
  };
  EXPECT_EQ(why([](auto&) {}), "");
  EXPECT_NE(why([](auto& d) { d.exact = true; }).find("exact sums were requested"), std::string::npos);
  EXPECT_NE(why([](auto& d) { d.params.stride = {2, 2}; }).find("stride"), std::string::npos);
  EXPECT_NE(why([](auto& d) { d.params.kernel = {6, 6}; }).find("tiles of 2 are for 3 or 5"), std::string::npos);
  EXPECT_NE(why([](auto& d) { d.params.kernel = {3, 5}; }).find("the kernel is"), std::string::npos);
  EXPECT_NE(why([](auto& d) { d.src.dtype = DType::f16; }).find("not f32"), std::string::npos);
  EXPECT_NE(why([](auto& d) { d.src.layout = Layout::plain(d.src.shape); }).find("channels-last"), std::string::npos);
}

}  // namespace
}  // namespace keelson::testing
