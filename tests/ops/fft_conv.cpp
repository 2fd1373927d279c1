#include "backends/kokkos/fft/fft_conv.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/kokkos/makers.hpp"
#include "tests/ops/conv_runs.hpp"
#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

using ops::Verb;

std::vector<ImageConvCase> fft_cases() {
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

class FftConvTest : public CaseTest<ImageConvCase> {};

TEST_P(FftConvTest, ErrorIsThatOfADirectConvolution) {
  if (!ctx().device().has_small_caches()) GTEST_SKIP() << "for CPUs";
  const ConvOperands o(c().src, c().weights(), c().dst(), c().bias);
  for (const auto& layout : {Layout::channels_last(c().weights()), Layout::plain(c().weights())}) {
    const auto d = c().desc(layout);
    const auto direct = kokkos::make(d);
    ASSERT_TRUE(direct.primitive) << direct.unsupported_reason;
    for (const Verb v : {Verb::forward, Verb::backward_data, Verb::backward_weights}) {
      SCOPED_TRACE(to_string(v));
      const auto made = kokkos::make_fft_conv(d, v);
      ASSERT_TRUE(made.primitive) << made.unsupported_reason;
      const Array want = conv_result(c().params(), v, o);
      const ConvErrors of_direct = errors_of(run_conv(ctx(), *direct.primitive, v, o), want);
      expect_errors(*made.primitive, v, run_conv(ctx(), *made.primitive, v, o), want, of_direct);
    }
  }
}

/// The products are those of f32: only the operands have been rounded.
TEST_P(FftConvTest, ReadsBf16) {
  if (!ctx().device().has_small_caches()) GTEST_SKIP() << "for CPUs";
  auto d = c().desc(Layout::channels_last(c().weights()));
  d.src.dtype = d.weights.dtype = DType::bf16;
  EXPECT_FALSE(kokkos::make_fft_conv(d, Verb::backward_weights).primitive);
  const Array x = rounded(oracle::random_uniform(c().src, "src"), DType::bf16),
              w = rounded(oracle::random_uniform(c().weights(), "weights", -0.5, 0.5), DType::bf16),
              b = c().bias ? oracle::random_uniform(Shape{c().filters}, "bias") : Array();
  const auto made = kokkos::make_fft_conv(d, Verb::forward);
  ASSERT_TRUE(made.primitive) << made.unsupported_reason;
  const auto dst = destination(ctx(), c().dst(), d.dst.layout);
  made.primitive->forward({put(ctx(), x, d.src.layout, DType::bf16), put(ctx(), w, d.weights.layout, DType::bf16),
                           b.empty() ? Tensor() : put(ctx(), b, Layout::plain(b.shape)), dst,
                           scratch(ctx(), made.primitive->scratch_bytes(Verb::forward))});
  EXPECT_TRUE(close(get(ctx(), dst), oracle::conv_forward(x, w, b, c().params()), "dst", {1e-5, 1e-5}));
}

/// A not finite element reaches results, and only those of its tiles.
TEST(FftConv, KeepsWhatIsNotFiniteInItsTiles) {
  Context& ctx = context("kokkos");
  if (!ctx.device().has_small_caches()) GTEST_SKIP() << "for CPUs";
  const ImageConvCase c{"", "", {2, 4, 40, 12}, 4, {5, 5}, {2, 2}, {2, 2}};
  const auto d = c.desc(Layout::channels_last(c.weights()));
  ConvOperands o(c.src, c.weights(), c.dst(), c.bias);
  o.x[0] = std::numeric_limits<double>::quiet_NaN();
  const auto made = kokkos::make_fft_conv(d, Verb::forward);
  ASSERT_TRUE(made.primitive);
  const Array got = run_conv(ctx, *made.primitive, Verb::forward, o);
  EXPECT_TRUE(std::isnan(got[0]));
  std::int64_t finite = 0;
  for (std::int64_t i = 0; i < got.elements(); ++i) finite += std::isfinite(got[i]);
  EXPECT_GE(finite, got.elements() * 3 / 4);
}

INSTANTIATE_TEST_SUITE_P(FftConv, FftConvTest, ::testing::ValuesIn([] {
                           std::vector<OnContext<ImageConvCase>> all;
                           for (const auto& c : fft_cases()) all.push_back({c, "kokkos"});
                           return all;
                         }()),
                         CaseName());

TEST(FftConv, SaysWhatItDoesNotTake) {
  if (!context("kokkos").device().has_small_caches()) GTEST_SKIP() << "for CPUs";
  const Shape src{1, 8, 12, 12}, none{0, 0};
  const auto reason = [&](const ImageConvCase& c, bool exact = false) {
    auto d = c.desc(Layout::channels_last(c.weights()));
    d.exact = exact;
    return kokkos::make_fft_conv(d, Verb::forward).unsupported_reason;
  };
  const ImageConvCase fit{"", "", src, 12, {8, 3}, none, none};
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
