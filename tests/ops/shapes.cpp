#include <gtest/gtest.h>

#include "engine/ops/op_list.hpp"
#include "tests/ops/conv_cases.hpp"
#include "tests/ops/transposed_conv_cases.hpp"
#include "tests/oracle/ops.hpp"

/// Shape rules, padding rules and FLOP counts: the parts of the ops that no backend has a say in.
namespace keelson::testing {
namespace {

template <class F>
std::string refusal(F f) {
  try {
    f();
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

ops::ConvParams conv(const Shape& kernel, std::int64_t stride = 1, std::int64_t dilation = 1) {
  const int n = kernel.rank();
  ops::ConvParams p;
  p.kernel = kernel;
  p.stride = Shape::filled(n, stride);
  p.dilation = Shape::filled(n, dilation);
  p.pad_begin = p.pad_end = Shape::filled(n, 0);
  return p;
}

TEST(ConvShape, AgreesWithCountedPositions) {
  for (const auto& c : conv_cases())
    EXPECT_EQ(to_string(ops::conv_dst_shape(c.src, c.params, c.filters)),
              to_string(oracle::conv_shape(c.src, c.weights(), c.params)))
        << c.name;
}

TEST(ConvShape, EveryExtentStrideDilationAndPadding) {
  for (std::int64_t in = 1; in <= 7; ++in)
    for (std::int64_t k = 1; k <= 4; ++k)
      for (std::int64_t stride = 1; stride <= 3; ++stride)
        for (std::int64_t dilation = 1; dilation <= 2; ++dilation)
          for (std::int64_t pad = 0; pad <= 2; ++pad) {
            auto p = conv({k}, stride, dilation);
            p.pad_end = {pad};
            const Shape src{1, 1, in};
            const bool fits = in + pad >= dilation * (k - 1) + 1;
            if (fits)
              EXPECT_EQ(ops::conv_dst_shape(src, p, 1)[2], oracle::conv_shape(src, {1, 1, k}, p)[2]);
            else
              EXPECT_THROW(ops::conv_dst_shape(src, p, 1), InputError);
          }
}

TEST(ConvShape, RefusesWhatDoesNotFitAndSaysWhat) {
  EXPECT_NE(refusal([] { ops::conv_dst_shape({1, 4, 2, 9}, conv({3, 3}), 8); }).find("2"), std::string::npos);
  auto grouped = conv({3, 3});
  grouped.groups = 3;
  EXPECT_NE(refusal([&] { ops::conv_dst_shape({1, 4, 9, 9}, grouped, 6); }).find("groups"), std::string::npos);
  EXPECT_NE(refusal([&] { ops::conv_dst_shape({1, 6, 9, 9}, grouped, 4); }).find("groups"), std::string::npos);
  grouped.groups = 0;
  EXPECT_THROW(ops::conv_dst_shape({1, 4, 9, 9}, grouped, 6), InputError);
  EXPECT_THROW(ops::conv_dst_shape({1, 4, 9, 9}, conv({3, 3, 3}), 8), InputError) << "as many entries as spatial dims";
  EXPECT_THROW(ops::conv_dst_shape({1, 4}, conv({}), 8), InputError);
  EXPECT_THROW(ops::conv_dst_shape({1, 4, 9, 9}, conv({3, 3}, 0), 8), InputError);
  EXPECT_THROW(ops::conv_dst_shape({1, 4, 9, 9}, conv({3, 3}, 1, 0), 8), InputError);
  EXPECT_THROW(ops::conv_dst_shape({1, 4, 9, 9}, conv({3, 3}), 0), InputError);
  auto negative = conv({3, 3});
  negative.pad_begin = {-1, 0};
  EXPECT_THROW(ops::conv_dst_shape({1, 4, 9, 9}, negative, 8), InputError);
}

// TensorFlow, "tf.nn.convolution": out = ceil(in / stride), total padding = max((out - 1) stride + reach - in, 0), the
// smaller half first.
TEST(SamePadding, IsTensorFlows) {
  for (std::int64_t in = 1; in <= 9; ++in)
    for (std::int64_t k = 1; k <= 5; ++k)
      for (std::int64_t stride = 1; stride <= 4; ++stride)
        for (std::int64_t dilation = 1; dilation <= 2; ++dilation) {
          auto p = conv({k}, stride, dilation);
          ops::set_same_padding(p, {2, 3, in});
          EXPECT_EQ(ops::conv_dst_shape({2, 3, in}, p, 1)[2], (in + stride - 1) / stride)
              << in << " " << k << " " << stride;
          const auto odd = p.pad_end[0] - p.pad_begin[0];
          EXPECT_TRUE(odd == 0 || odd == 1);
          // No element more than needed: with one less the last position would be lost.
          if (p.pad_end[0] > 0) {
            auto less = p;
            less.pad_end[0] -= 1;
            const auto positions = in + less.pad_begin[0] + less.pad_end[0] < dilation * (k - 1) + 1
                                       ? 0
                                       : ops::conv_dst_shape({2, 3, in}, less, 1)[2];
            EXPECT_LT(positions, (in + stride - 1) / stride);
          }
        }
}

TEST(PoolShape, DropsWindowsThatReachOverTheEnd) {
  ops::PoolParams p{ops::PoolKind::max, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}, {0, 0, 0}};
  EXPECT_EQ(ops::pool_dst_shape({1, 16, 63, 62, 3}, p), (Shape{1, 16, 31, 31, 1}));
  for (std::int64_t in = 1; in <= 8; ++in)
    for (std::int64_t k = 1; k <= 4; ++k)
      for (std::int64_t stride = 1; stride <= 3; ++stride)
        for (std::int64_t pad = 0; pad < k; ++pad) {
          const ops::PoolParams one{ops::PoolKind::average, {k}, {stride}, {pad}, {0}};
          if (in + pad < k) continue;
          EXPECT_EQ(ops::pool_dst_shape({1, 1, in}, one)[2], oracle::pool_shape({1, 1, in}, one)[2]);
        }
}

TEST(PoolShape, RefusesWindowsOfNothing) {
  EXPECT_THROW(ops::pool_dst_shape({1, 1, 1, 4}, {ops::PoolKind::max, {2, 2}, {2, 2}, {0, 0}, {0, 0}}), InputError);
  EXPECT_THROW(ops::pool_dst_shape({1, 1, 4, 4}, {ops::PoolKind::max, {2, 2}, {2, 2}, {2, 0}, {0, 0}}), InputError);
  EXPECT_THROW(ops::pool_dst_shape({1, 1, 4, 4}, {ops::PoolKind::max, {2}, {2}, {0}, {0}}), InputError);
}

TEST(ConcatShape, JoinsAndRefuses) {
  EXPECT_EQ(ops::concat_dst_shape({{2, 3, 4}, {2, 5, 4}, {2, 1, 4}}, 1), (Shape{2, 9, 4}));
  EXPECT_THROW(ops::concat_dst_shape({}, 1), InputError);
  EXPECT_THROW(ops::concat_dst_shape({{2, 3}}, 2), InputError);
  EXPECT_THROW(ops::concat_dst_shape({{2, 3}}, -1), InputError);
  EXPECT_THROW(ops::concat_dst_shape({{2, 3, 4}, {2, 5, 5}}, 1), InputError);
  EXPECT_THROW(ops::concat_dst_shape({{2, 3, 4}, {2, 5}}, 1), InputError);
}

// A multiply-add counted for each position of each filter's weights: MLPerf CosmoFlow's forward pass is 34.43 GMAC.
TEST(Flops, OfTheFirstCosmoFlowLayer) {
  ops::ConvDesc d;
  d.params = conv({3, 3, 3});
  d.src = TensorDesc::plain({1, 4, 128, 128, 128});
  d.weights = TensorDesc::plain({32, 4, 3, 3, 3});
  d.dst = TensorDesc::plain({1, 32, 128, 128, 128});
  EXPECT_EQ(ops::conv_flops(d), 2.0 * 128 * 128 * 128 * 32 * 4 * 27);
}

TEST(Describe, NamesTheOpItsParametersAndItsTensors) {
  const auto c = conv_case("cosmoflow_first_3d");
  ops::ConvDesc d{c.params, TensorDesc::plain(c.src), TensorDesc::plain(c.weights()),
                  TensorDesc::plain({1, 16, 8, 8, 8})};
  const auto text = ops::describe(d);
  for (const auto* part : {"conv", "kernel 3x3x3", "leaky_relu(0.3)", "1x4x8x8x8 f32 plain"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

ops::TransposedConvParams two_d(std::int64_t kernel, std::int64_t stride) {
  ops::TransposedConvParams p;
  p.kernel = Shape::filled(2, kernel);
  p.stride = Shape::filled(2, stride);
  p.dilation = Shape::filled(2, 1);
  p.pad_begin = p.pad_end = p.output_padding = Shape::filled(2, 0);
  return p;
}

TEST(TransposedConvShape, BothConventionsDoubleTheExtents) {
  auto pytorch = two_d(3, 2);
  pytorch.pad_begin = pytorch.pad_end = pytorch.output_padding = {1, 1};
  EXPECT_EQ(ops::transposed_conv_dst_shape({1, 256, 48, 72}, pytorch, 256), (Shape{1, 256, 96, 144}));
  auto same = two_d(3, 2);
  ops::set_same_padding(same);
  EXPECT_EQ(same.pad_begin, (Shape{0, 0}));
  EXPECT_EQ(same.pad_end, (Shape{1, 1}));
  EXPECT_EQ(ops::transposed_conv_dst_shape({1, 256, 48, 72}, same, 256), (Shape{1, 256, 96, 144}));
}

TEST(TransposedConvShape, SameIsTheStrideTimesTheSource) {
  for (std::int64_t in = 1; in <= 4; ++in)
    for (std::int64_t k = 1; k <= 5; ++k)
      for (std::int64_t stride = 1; stride <= 4; ++stride) {
        auto p = two_d(k, stride);
        ops::set_same_padding(p);
        EXPECT_EQ(ops::transposed_conv_dst_shape({1, 1, in, in}, p, 1), (Shape{1, 1, in * stride, in * stride}))
            << k << " " << stride;
      }
}

TEST(TransposedConvShape, TheSwappedConvolutionGoesBack) {
  for (const auto& c : transposed_conv_cases()) {
    const auto dst = c.dst();
    EXPECT_EQ(dst, oracle::transposed_conv_shape(c.src, c.weights(), c.params)) << c.name;
    ops::TransposedConvDesc d{c.params, TensorDesc::plain(c.src), TensorDesc::plain(c.weights()),
                              TensorDesc::plain(dst)};
    EXPECT_EQ(ops::conv_dst_shape(dst, ops::swapped_conv(d).params, c.src[1]), c.src) << c.name;
  }
}

TEST(TransposedConvShape, RefusesWhatDoesNotFitAndSaysWhat) {
  const auto shape = [](const Shape& src, const ops::TransposedConvParams& p, std::int64_t channels = 4) {
    return refusal([&] { ops::transposed_conv_dst_shape(src, p, channels); });
  };
  const auto has = [](const std::string& text, std::string_view part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  auto p = two_d(3, 2);
  p.output_padding = {0, 2};
  has(shape({1, 4, 5, 5}, p), "output_padding is 2 in spatial dim 1, where the stride is 2; expected 0 to 1");
  p.output_padding = {1};
  has(shape({1, 4, 5, 5}, p), "output_padding has 1 entries (1)");
  p = two_d(3, 2);
  p.pad_begin = {2, 0};
  p.pad_end = {1, 0};
  has(shape({1, 4, 1, 5}, p), "makes 3 elements in spatial dim 0, and the padding cuts off 3 of them");
  p = two_d(3, 2);
  p.groups = 2;
  has(shape({1, 3, 5, 5}, p), "cannot be split into 2 groups");
  has(shape({1, 4, 5, 5}, p, 3), "cannot be split into 2 groups");
  p.groups = 0;
  has(shape({1, 4, 5, 5}, p), "0 groups");
  p = two_d(3, 0);
  has(shape({1, 4, 5, 5}, p), "transposed convolution: stride is 0x0");
  p = two_d(3, 1);
  p.pad_begin = {-1, 0};
  has(shape({1, 4, 5, 5}, p), "pad_begin");
  has(shape({1, 4, 5}, two_d(3, 2)), "kernel has 2 entries");
  has(shape({1, 4, 5, 5}, two_d(3, 2), 0), "0 channels of the result");
}

TEST(TransposedConvDescription, NamesTheOpItsParametersAndItsTensors) {
  auto p = two_d(3, 2);
  p.output_padding = {1, 0};
  const ops::TransposedConvDesc d{p, TensorDesc::plain({1, 4, 5, 5}), TensorDesc::plain({4, 2, 3, 3}),
                                  TensorDesc::plain({1, 2, 12, 11})};
  const auto text = ops::describe(d);
  for (const auto* part :
       {"transposed conv", "kernel 3x3", "stride 2x2", "output padding 1x0", "+ bias", "1x4x5x5 f32"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

}  // namespace
}  // namespace keelson::testing
