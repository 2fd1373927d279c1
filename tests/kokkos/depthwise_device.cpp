#include "backends/kokkos/conv/depthwise_device.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/oracle/ops.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/tensors.hpp"

namespace keelson::testing {
namespace {

struct DepthwiseCase {
  std::string name;
  Shape src;
  std::int64_t stride, dilation;
  Shape pad_begin, pad_end;
};

class DepthwiseDeviceTest : public ::testing::TestWithParam<DepthwiseCase> {};

TEST_P(DepthwiseDeviceTest, MatchesOracle) {
  Context& ctx = context("kokkos");
  const auto& c = GetParam();
  const std::int64_t channels = c.src[1];
  const Shape weights{channels, 1, 3, 3};
  ops::ConvParams p{{3, 3}, {c.stride, c.stride}, {c.dilation, c.dilation}, c.pad_begin, c.pad_end};
  p.groups = channels;
  p.bias = false;
  const Shape dst = oracle::conv_shape(c.src, weights, p);
  for (const auto type : {DType::f32, DType::bf16, DType::f16}) {
    const auto last = [&](const Shape& s) { return TensorDesc{s, type, Layout::channels_last(s)}; };
    ops::ConvDesc d{p, last(c.src), last(weights), last(dst)};
    ASSERT_EQ(kokkos::DepthwiseDevice::unfit(d), "");
    const kokkos::DepthwiseDevice op(d);
    const Array x = rounded(oracle::random_uniform(c.src, "x"), type),
                w = rounded(oracle::random_uniform(weights, "w"), type),
                dy = rounded(oracle::random_uniform(dst, "dy"), type);
    const Tensor src = put(ctx, x, Layout::channels_last(c.src), type),
                 diff = put(ctx, dy, Layout::channels_last(dst), type),
                 made = destination(ctx, dst, Layout::channels_last(dst), type),
                 diff_weights = destination(ctx, weights, Layout::channels_last(weights)),
                 more = scratch(ctx, std::max(op.forward_scratch_bytes(), op.weights_scratch_bytes()));
    const auto what = fmt::format("{} {}", c.name, to_string(type));
    op.forward(src.raw(), put(ctx, w, Layout::channels_last(weights), type).raw(), made.raw(), more.raw());
    EXPECT_TRUE(close(get(ctx, made), oracle::conv_forward(x, w, Array(Shape{channels}), p), what, tolerance(type)));
    op.backward_weights(src.raw(), diff.raw(), diff_weights.data<float>(), more.raw());
    EXPECT_TRUE(close(get(ctx, diff_weights), oracle::conv_backward_weights(x, dy, weights, p), what + " weights",
                      tolerance(DType::f32)));
  }
}

INSTANTIATE_TEST_SUITE_P(Depthwise, DepthwiseDeviceTest,
                         ::testing::Values(DepthwiseCase{"same", {2, 16, 7, 9}, 1, 1, {1, 1}, {1, 1}},
                                           DepthwiseCase{"stride", {2, 8, 11, 10}, 2, 1, {1, 1}, {0, 1}},
                                           DepthwiseCase{"dilated", {1, 24, 12, 13}, 1, 2, {2, 2}, {2, 2}},
                                           DepthwiseCase{"wide_padding", {1, 8, 3, 2}, 1, 1, {3, 4}, {4, 3}},
                                           DepthwiseCase{"many_slots", {2, 8, 120, 150}, 1, 1, {1, 1}, {1, 1}}),
                         [](const auto& info) { return info.param.name; });

TEST(DepthwiseDevice, DeclinesWhatItDoesNotCompute) {
  const auto why = [](std::int64_t channels, std::int64_t groups, Shape kernel) {
    const Shape src{1, channels, 8, 8}, weights{channels, channels / groups, kernel[0], kernel[1]};
    ops::ConvParams p{kernel, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
    p.groups = groups;
    p.bias = false;
    const auto plain = [](const Shape& s) { return TensorDesc{s, DType::f32, Layout::channels_last(s)}; };
    return kokkos::DepthwiseDevice::unfit({p, plain(src), plain(weights), plain(src)});
  };
  EXPECT_EQ(why(8, 8, {3, 3}), "");
  EXPECT_EQ(why(8, 8, {5, 5}), "the kernel is not 3 x 3");
  EXPECT_EQ(why(8, 4, {3, 3}), "the channels are not the groups");
  EXPECT_EQ(why(6, 6, {3, 3}), "the channels do not fill packs of 16 bytes");
}

}  // namespace
}  // namespace keelson::testing
