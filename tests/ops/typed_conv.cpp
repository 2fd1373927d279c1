#include "backends/kokkos/conv/gemm_conv.hpp"

#include <limits>

#include "backends/kokkos/norm/channels.hpp"
#include "engine/tensor/half.hpp"
#include "tests/ops/conv_cases.hpp"
#include "tests/ops/op_test.hpp"

/// Convolutions whose operands have types of 16 bits: those that a context makes, and the one by matrix products for
/// GPUs without cuDNN, with the products of every backend that is here.
namespace keelson::testing {
namespace {

using ops::Role;
using ops::Verb;

template <class T>
float value(const Tensor& t, std::int64_t row, std::int64_t column) {
  const auto& strides = t.layout().strides();
  return to_float(static_cast<const T*>(t.raw())[row * strides[0] + column * strides[1]]);
}

float value(const Tensor& t, std::int64_t row, std::int64_t column) {
  if (t.dtype() == DType::bf16) return value<bf16>(t, row, column);
  if (t.dtype() == DType::f16) return value<f16>(t, row, column);
  return value<float>(t, row, column);
}

/// Products of 16-bit operands on the host, where no backend of a CPU build makes them.
class HostMatMul : public ops::MatMul {
 public:
  Layout layout(Verb, Role) const override { return {}; }
  std::string name(Verb) const override { return "loops"; }
  void forward(const Tensor& src, const Tensor& weights, const void*, const Tensor& dst, void*) override {
    const auto& strides = dst.layout().strides();
    for (std::int64_t m = 0; m < dst.shape()[0]; ++m)
      for (std::int64_t n = 0; n < dst.shape()[1]; ++n) {
        double sum = 0;
        for (std::int64_t k = 0; k < src.shape()[1]; ++k)
          sum += static_cast<double>(value(src, m, k)) * static_cast<double>(value(weights, k, n));
        const auto at = m * strides[0] + n * strides[1];
        const auto f = static_cast<float>(sum);
        if (dst.dtype() == DType::bf16)
          static_cast<bf16*>(dst.raw())[at] = to_bf16(f);
        else if (dst.dtype() == DType::f16)
          static_cast<f16*>(dst.raw())[at] = to_f16(f);
        else
          static_cast<float*>(dst.raw())[at] = f;
      }
  }
};

struct Types {
  DType operands, dst;
};

class TypedConvTest : public CaseTest<ConvCase> {
 protected:
  ops::ConvDesc describe(const Types& types) {
    ops::ConvDesc d;
    d.params = c().params;
    d.src = {c().src, types.operands, Layout::channels_last(c().src)};
    d.weights = {c().weights(), types.operands, Layout::channels_last(c().weights())};
    const Shape dst = ops::conv_dst_shape(c().src, c().params, c().filters);
    d.dst = {dst, types.dst, Layout::channels_last(dst)};
    return d;
  }

  /// Channels-last; `a` becomes what the tensor holds.
  Tensor put_as(Array& a, DType type) {
    for (std::int64_t i = 0; i < a.elements(); ++i) {
      const auto x = static_cast<float>(a[i]);
      a[i] = type == DType::bf16 ? to_float(to_bf16(x)) : type == DType::f16 ? to_float(to_f16(x)) : x;
    }
    const auto layout = Layout::channels_last(a.shape);
    return converted(put(ctx(), a, layout), type);
  }
  Tensor destination_of(const Shape& shape, DType type) {
    return converted(destination(ctx(), shape, Layout::channels_last(shape)), type);
  }
  Tensor converted(const Tensor& t, DType type) {
    const auto to = ctx().allocate({t.shape(), type, t.layout()}, "test operand");
    kokkos::copy_channels(t.raw(), t.dtype(), 1, to.raw(), type, 1, t.elements());
    ctx().device().fence();
    return to;
  }

  /// diff_weights within `weights_tolerance`; everything else as its type allows.
  void check_all(ops::Conv& op, const Types& types, const std::string& what, bool plant_nan = false,
                 Tolerance weights_tolerance = tolerance(DType::f32)) {
    Array src = oracle::random_uniform(c().src, "src"),
          weights = oracle::random_uniform(c().weights(), "weights", -0.5, 0.5),
          diff_dst = oracle::random_uniform(oracle::conv_shape(c().src, c().weights(), c().params), "diff_dst");
    Array bias;
    if (c().params.bias) bias = oracle::random_uniform(Shape{c().filters}, "bias");
    if (plant_nan)
      src[src.elements() / 2] = diff_dst[diff_dst.elements() / 2] = std::numeric_limits<double>::quiet_NaN();
    const auto extra = [&](Verb v) { return scratch(ctx(), op.scratch_bytes(v)); };
    const auto x = put_as(src, types.operands), w = put_as(weights, types.operands),
               dy = put_as(diff_dst, types.operands);
    Tensor b;
    if (c().params.bias) b = put(ctx(), bias, Layout::plain(bias.shape));
    const auto close_enough = tolerance(types.dst);
    const auto y = destination_of(diff_dst.shape, types.dst);
    op.forward({x, w, b, y, extra(Verb::forward)});
    check(converted(y, DType::f32), oracle::conv_forward(src, weights, bias, c().params), what + ", dst", close_enough);
    const auto dx = destination_of(c().src, types.dst);
    op.backward_data({dy, w, dx, extra(Verb::backward_data)});
    check(converted(dx, DType::f32), oracle::conv_backward_data(diff_dst, weights, c().src, c().params),
          what + ", diff_src", close_enough);
    if (plant_nan) return;
    const auto dw = destination_of(c().weights(), DType::f32);
    Tensor db;
    if (c().params.bias) db = destination(ctx(), bias.shape, Layout::plain(bias.shape));
    std::vector<Tensor> outputs{dw};
    if (db) outputs.push_back(db);
    const auto space = extra(Verb::backward_weights);
    op.backward_weights({x, dy, dw, db, space});
    check(dw, oracle::conv_backward_weights(src, diff_dst, c().weights(), c().params), what + ", diff_weights",
          weights_tolerance);
    if (db) check(db, oracle::backward_bias(diff_dst), what + ", diff_bias");
    const auto first = raw_bytes(ctx(), dw);
    op.backward_weights({x, dy, dw, db, space});
    EXPECT_EQ(raw_bytes(ctx(), dw), first) << what << ": differs when run again";
  }
};

class GemmConvTest : public TypedConvTest {
 protected:
  ops::Expected<ops::MatMul> make_gemm(const ops::MatMulDesc& m) {
    std::string why;
    auto product = ctx().try_make(m, &why);
    if (!product && is_half(m.src.dtype) && ctx().device().shares_host_memory())
      product = std::make_unique<HostMatMul>();
    if (!product) return why;
    return product;
  }

  void check_case(const Types& types, std::size_t piece_bytes, bool plant_nan = false) {
    auto made =
        kokkos::make_gemm_conv(describe(types), [&](const ops::MatMulDesc& m) { return make_gemm(m); }, piece_bytes);
    EXPECT_TRUE(made.primitive || is_half(types.operands) || !accepts_everything()) << made.unsupported_reason;
    if (!made.primitive) GTEST_SKIP() << made.unsupported_reason;
    check_all(*made.primitive, types,
              fmt::format("{} to {}, pieces of {}", to_string(types.operands), to_string(types.dst), piece_bytes),
              plant_nan);
  }
};

constexpr std::size_t whole = std::size_t{1} << 28;

TEST_P(GemmConvTest, MatchesOracle) { check_case({DType::f32, DType::f32}, whole); }

TEST_P(GemmConvTest, InPiecesMatchesOracle) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{3000}, std::size_t{100000}})
    check_case({DType::f32, DType::f32}, bytes);
}

TEST_P(GemmConvTest, NanReachesExactlyWhatReadsIt) { check_case({DType::f32, DType::f32}, whole, true); }

TEST_P(GemmConvTest, SixteenBitsMatchOracle) {
  for (const auto type : {DType::bf16, DType::f16}) {
    check_case({type, type}, whole);
    check_case({type, DType::f32}, 3000);
  }
}

/// For the cases with few channels: gradients of src by one product for all taps.
class FewChannelsConvTest : public GemmConvTest {};

TEST_P(FewChannelsConvTest, MatchesOracle) {
  const auto& p = c().params;
  const auto taps = p.kernel.elements();
  const Types types{DType::f32, DType::f32};
  auto made = kokkos::make_few_channels_conv(describe(types), [&](const ops::MatMulDesc& m) { return make_gemm(m); });
  const bool suits = p.groups == 1 && taps > 1 && taps * c().src[1] <= 64;
  EXPECT_EQ(suits, made.primitive != nullptr) << made.unsupported_reason;
  if (!made.primitive) return;
  check_all(*made.primitive, types, "few channels");
  if (c().name == "few_channels_2d") {
    EXPECT_EQ(made.primitive->name(Verb::backward_data).substr(0, 7), "taps of");
  }
}

class PointwiseConvTest : public GemmConvTest {};

TEST_P(PointwiseConvTest, MatchesOracle) {
  const Types types{DType::f32, DType::f32};
  const auto make = [&](Verb verb) {
    return kokkos::make_pointwise_conv(describe(types), verb, [&](const ops::MatMulDesc& m) { return make_gemm(m); });
  };
  auto made = make(Verb::backward_weights);
  const bool suits = c().params.groups == 1 && c().params.kernel.elements() == 1;
  EXPECT_EQ(suits, made.primitive != nullptr) << made.unsupported_reason;
  EXPECT_EQ(make(Verb::forward).primitive, nullptr);
  EXPECT_EQ(make(Verb::backward_data).primitive, nullptr);
  if (made.primitive) check_all(*made.primitive, types, "pointwise");
}

class LowConvTest : public TypedConvTest {};

TEST_P(LowConvTest, MatchesOracle) {
  for (const auto type : {DType::bf16, DType::f16})
    for (const auto dst : {type, DType::f32}) {
      const Types types{type, dst};
      const auto op = make(describe(types));
      // A library may sum diff_weights in f32 and round the sums to the operands' type.
      if (op) check_all(*op, types, fmt::format("{} to {}", to_string(type), to_string(dst)), false, tolerance(type));
    }
}

INSTANTIATE_TEST_SUITE_P(LowConv, LowConvTest, ::testing::ValuesIn(on_every_context(conv_cases())), CaseName());
INSTANTIATE_TEST_SUITE_P(FewChannelsConv, FewChannelsConvTest, ::testing::ValuesIn(on_all_backends(conv_cases())),
                         CaseName());
INSTANTIATE_TEST_SUITE_P(PointwiseConv, PointwiseConvTest, ::testing::ValuesIn(on_all_backends(conv_cases())),
                         CaseName());
INSTANTIATE_TEST_SUITE_P(GemmConv, GemmConvTest, ::testing::ValuesIn(on_all_backends(conv_cases())), CaseName());

}  // namespace
}  // namespace keelson::testing
