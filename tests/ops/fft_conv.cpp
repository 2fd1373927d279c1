#include "backends/kokkos/fft/fft_conv.hpp"

#include <algorithm>
#include <cmath>

#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

using ops::Role;
using ops::Verb;

struct FftConvCase {
  std::string name, about;
  Shape src;
  std::int64_t filters;
  Shape kernel, pad_begin, pad_end;
  ops::EltwiseParams activation = {};
  bool bias = true;

  Shape weights() const { return {filters, src[1], kernel[0], kernel[1]}; }
  ops::ConvParams params() const { return {kernel, {1, 1}, {1, 1}, pad_begin, pad_end, 1, bias, activation}; }
  Shape dst() const { return ops::conv_dst_shape(src, params(), filters); }
  ops::ConvDesc desc(const Layout& weights_layout) const {
    ops::ConvDesc d;
    d.params = params();
    d.src = {src, DType::f32, Layout::channels_last(src)};
    d.weights = {weights(), DType::f32, weights_layout};
    d.dst = {dst(), DType::f32, Layout::channels_last(dst())};
    return d;
  }
};

std::vector<FftConvCase> fft_cases() {
  const Shape none{0, 0};
  const ops::EltwiseParams relu{ops::EltwiseKind::relu}, leaky{ops::EltwiseKind::leaky_relu, 0.3f};
  return {
      {"square", "some tiles, padding", {2, 32, 30, 27}, 16, {5, 5}, {2, 2}, {2, 2}, relu},
      {"channels",
       "more channels than are transformed at once, more filters than a group has",
       {1, 144, 14, 15},
       84,
       {5, 5},
       {2, 2},
       {2, 2},
       leaky},
      {"minerva", "channels that do not fill vectors", {3, 12, 25, 20}, 20, {7, 3}, none, none, relu},
      {"padded", "unequal padding", {2, 8, 17, 19}, 36, {4, 5}, {1, 4}, {3, 2}, leaky},
      {"large", "a kernel of 9 taps, no bias", {1, 16, 40, 33}, 8, {9, 8}, {4, 3}, {4, 4}, {}, false},
      {"row", "a kernel along rows", {2, 4, 5, 40}, 4, {1, 7}, {0, 3}, {0, 3}},
      {"tiny", "less than a tile", {1, 4, 6, 5}, 4, {5, 4}, none, none},
      {"many", "more tiles than a block", {5, 4, 50, 64}, 8, {5, 5}, {2, 2}, {2, 2}},
  };
}

class FftConvTest : public CaseTest<FftConvCase> {
 protected:
  struct Operands {
    Array x, w, dy, b;
  };
  Operands operands() const {
    return {oracle::random_uniform(c().src, "src"), oracle::random_uniform(c().weights(), "weights", -0.5, 0.5),
            oracle::random_uniform(c().dst(), "diff_dst"),
            c().bias ? oracle::random_uniform(Shape{c().filters}, "bias") : Array()};
  }
  std::unique_ptr<ops::Conv> make(const ops::ConvDesc& d, Verb v) {
    auto made = kokkos::make_fft_conv(d, v);
    EXPECT_TRUE(made.primitive) << made.unsupported_reason;
    return std::move(made.primitive);
  }
};

TEST_P(FftConvTest, EqualsTheDefinition) {
  if (!ctx().device().has_small_caches()) GTEST_SKIP() << "for CPUs";
  const Operands o = operands();
  for (const auto& layout : {Layout::channels_last(c().weights()), Layout::plain(c().weights())}) {
    const auto d = c().desc(layout);
    const auto bias = o.b.empty() ? Tensor() : put(ctx(), o.b, Layout::plain(o.b.shape));
    for (const Verb v : {Verb::forward, Verb::backward_data, Verb::backward_weights}) {
      SCOPED_TRACE(to_string(v));
      const auto op = make(d, v);
      ASSERT_TRUE(op);
      const auto extra = scratch(ctx(), op->scratch_bytes(v));
      if (v == Verb::forward) {
        const auto dst = destination(ctx(), c().dst(), op->layout(v, Role::dst));
        op->forward({put(ctx(), o.x, d.src.layout), put(ctx(), o.w, layout), bias, dst, extra});
        EXPECT_TRUE(close(get(ctx(), dst), oracle::conv_forward(o.x, o.w, o.b, c().params()), "dst", {1e-5, 1e-5}));
      } else if (v == Verb::backward_data) {
        const auto dx = destination(ctx(), c().src, op->layout(v, Role::diff_src));
        op->backward_data({put(ctx(), o.dy, d.dst.layout), put(ctx(), o.w, layout), dx, extra});
        const Array want = oracle::conv_backward_data(o.dy, o.w, c().src, c().params());
        EXPECT_TRUE(close(get(ctx(), dx), want, "diff_src", {1e-5, 1e-5}));
      } else {
        const auto dw = destination(ctx(), c().weights(), op->layout(v, Role::diff_weights));
        const auto db = c().bias ? destination(ctx(), o.b.shape, Layout::plain(o.b.shape)) : Tensor();
        op->backward_weights({put(ctx(), o.x, d.src.layout), put(ctx(), o.dy, d.dst.layout), dw, db, extra});
        const Array want = oracle::conv_backward_weights(o.x, o.dy, c().weights(), c().params());
        EXPECT_TRUE(close(get(ctx(), dw), want, "diff_weights", {1e-5, 1e-5}));
        if (db) check(db, oracle::backward_bias(o.dy), "diff_bias");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(FftConv, FftConvTest, ::testing::ValuesIn([] {
                           std::vector<OnContext<FftConvCase>> all;
                           for (const auto& c : fft_cases()) all.push_back({c, "kokkos"});
                           return all;
                         }()),
                         CaseName());

TEST(FftConv, SaysWhatItDoesNotTake) {
  if (!context("kokkos").device().has_small_caches()) GTEST_SKIP() << "for CPUs";
  const Shape src{1, 8, 12, 12}, none{0, 0};
  const auto reason = [&](const FftConvCase& c, bool exact = false) {
    auto d = c.desc(Layout::channels_last(c.weights()));
    d.exact = exact;
    return kokkos::make_fft_conv(d, Verb::forward).unsupported_reason;
  };
  const FftConvCase fit{"", "", src, 12, {8, 3}, none, none};
  auto small = fit, large = fit, odd = fit;
  small.kernel = {3, 3}, large.kernel = {10, 3}, odd.filters = 6;
  EXPECT_EQ(reason(fit), "");
  EXPECT_NE(reason(fit, true).find("exact"), std::string::npos);
  EXPECT_NE(reason(small).find("the kernel is"), std::string::npos);
  EXPECT_NE(reason(large).find("the kernel is"), std::string::npos);
  EXPECT_NE(reason(odd).find("multiples of 4"), std::string::npos);
}

}  // namespace
}  // namespace keelson::testing
