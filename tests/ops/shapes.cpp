#include <gtest/gtest.h>

#include "engine/ops/op_list.hpp"
#include "tests/ops/conv_cases.hpp"
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

}  // namespace
}  // namespace keelson::testing
