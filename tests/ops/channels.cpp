#include "backends/kokkos/norm/channels.hpp"

#include "engine/tensor/half.hpp"
#include "tests/ops/op_test.hpp"

/// The kernels that convolutions and dense layers share where a library computes their products.
namespace keelson::testing {
namespace {

using ops::EltwiseKind;
using ops::EltwiseParams;

struct ChannelCase {
  std::string name, about;
  std::int64_t rows, channels;
};

class ChannelsTest : public OpTest, public ::testing::WithParamInterface<ChannelCase> {
 protected:
  void SetUp() override { use(contexts().back()); }
  Shape shape() const { return {GetParam().rows, GetParam().channels}; }

  /// `a` as `type`, and what it then holds.
  Tensor put_as(Array& a, DType type) {
    for (std::int64_t i = 0; i < a.elements(); ++i) {
      const auto x = static_cast<float>(a[i]);
      a[i] = type == DType::bf16 ? to_float(to_bf16(x)) : type == DType::f16 ? to_float(to_f16(x)) : x;
    }
    const auto f32 = put(ctx(), a, Layout::plain(a.shape));
    auto t = ctx().allocate(TensorDesc::plain(a.shape, type), "values");
    kokkos::copy_channels(f32.raw(), DType::f32, a.shape[1], t.raw(), type, a.shape[1], a.shape[0]);
    return t;
  }
  Array get_as_f32(const Tensor& t) {
    const auto f32 = destination(ctx(), t.shape(), Layout::plain(t.shape()));
    kokkos::copy_channels(t.raw(), t.dtype(), t.shape()[1], f32.raw(), DType::f32, t.shape()[1], t.shape()[0]);
    return get(ctx(), f32);
  }
};

constexpr DType types[] = {DType::f32, DType::bf16, DType::f16};

TEST_P(ChannelsTest, AddsBiasAndActivates) {
  const EltwiseParams p{EltwiseKind::leaky_relu, 0.3f, 0};
  const Array bias = oracle::random_uniform(Shape{shape()[1]}, "bias");
  const auto b = put(ctx(), bias, Layout::plain(bias.shape));
  for (const auto type : types)
    for (const bool with_bias : {true, false}) {
      Array want = oracle::random_uniform(shape(), "values");
      const auto t = put_as(want, type);
      for (std::int64_t i = 0; i < want.elements(); ++i) {
        const double x = want[i] + (with_bias ? bias[i % shape()[1]] : 0);
        want[i] = x > 0 ? x : static_cast<double>(p.alpha) * x;
      }
      kokkos::add_bias_and_activate(t.raw(), type, shape()[0], shape()[1], with_bias ? b.data<float>() : nullptr, p);
      EXPECT_TRUE(close(get_as_f32(t), want, to_string(type), tolerance(type)));
    }
}

TEST_P(ChannelsTest, SumsChannelsTheSameWayTwice) {
  for (const auto type : types) {
    Array values = oracle::random_uniform(shape(), "values");
    const auto t = put_as(values, type);
    Array want{Shape{shape()[1]}, std::vector<double>(static_cast<std::size_t>(shape()[1]))};
    for (std::int64_t i = 0; i < values.elements(); ++i) want[i % shape()[1]] += values[i];
    const auto sums = destination(ctx(), want.shape, Layout::plain(want.shape));
    const auto extra = scratch(ctx(), kokkos::channel_sums_scratch(shape()[0], shape()[1]));
    run("sums", {sums},
        [&] { kokkos::channel_sums(t.raw(), type, shape()[0], shape()[1], sums.data<float>(), extra.raw()); });
    check(sums, want, std::string(to_string(type)));
  }
}

TEST_P(ChannelsTest, PadsWithZerosAndCuts) {
  const auto rows = shape()[0], channels = shape()[1];
  for (const auto type : types) {
    Array a = oracle::random_uniform(shape(), "values");
    const auto t = put_as(a, type);
    for (const auto other : {channels + 4, channels - channels / 2}) {
      Array want{Shape{rows, other}, std::vector<double>(static_cast<std::size_t>(rows * other))};
      for (std::int64_t i = 0; i < want.elements(); ++i)
        if (i % other < channels) want[i] = a[i / other * channels + i % other];
      const auto dst = ctx().allocate(TensorDesc::plain(want.shape, type), "dst");
      kokkos::copy_channels(t.raw(), type, channels, dst.raw(), type, other, rows);
      EXPECT_TRUE(close(get_as_f32(dst), want, to_string(type), exact));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Channels, ChannelsTest,
                         ::testing::Values(ChannelCase{"one", "one value", 1, 1},
                                           ChannelCase{"odd", "no packs", 37, 13},
                                           ChannelCase{"packs", "16 bytes at a time", 300, 24},
                                           ChannelCase{"narrow", "f32 packs only", 50, 4},
                                           ChannelCase{"long", "sums in three steps", 40000, 1},
                                           ChannelCase{"wide", "more channels than values at once", 20, 2048}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace keelson::testing
