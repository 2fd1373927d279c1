#include "engine/ops/conv_max_pool.hpp"
#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

using ops::Role;
using ops::Verb;

/// A first layer in 16 bits on a GPU: the convolution, its activation and the max pooling as one call.
struct PooledConvCase {
  std::string name, about;
  Shape src;
  std::int64_t filters;
  Shape pad;
  ops::EltwiseParams activation;
  bool bias = true;

  Shape weights() const { return {filters, src[1], 3, 3, 3}; }
  ops::ConvParams conv() const {
    const Shape ones{1, 1, 1};
    return {{3, 3, 3}, ones, ones, pad, pad, 1, bias, activation};
  }
};

std::vector<PooledConvCase> pooled_conv_cases() {
  const ops::EltwiseParams leaky{ops::EltwiseKind::leaky_relu, 0.3f, 0}, relu{ops::EltwiseKind::relu, 0, 0}, none{};
  const Shape same{1, 1, 1};
  return {
      {"cosmoflow", "CosmoFlow's conv1, several tiles", {2, 4, 12, 18, 40}, 32, same, leaky},
      {"one_channel", "the paper's first layer", {1, 1, 8, 8, 16}, 16, same, relu},
      {"two_channels", "a pair of channels", {1, 2, 6, 10, 18}, 48, same, none},
      {"three_channels", "a pair and a half, no bias", {1, 3, 6, 8, 8}, 64, same, leaky, false},
      {"odd_extents", "what the windows drop, and windows that a tile does not have", {2, 4, 5, 7, 9}, 32, same, leaky},
      {"valid", "without padding", {1, 4, 8, 6, 12}, 16, {0, 0, 0}, relu},
      {"unequal_padding", "results that see padding alone", {1, 4, 4, 5, 6}, 32, {2, 0, 3}, leaky},
      {"one_window", "", {1, 4, 2, 2, 2}, 16, same, none},
  };
}

class PooledConvTest : public CaseTest<PooledConvCase> {
 public:
  ops::ConvMaxPoolForwardDesc desc(DType type) const {
    const Shape two{2, 2, 2}, none{0, 0, 0};
    const ops::PoolParams pool{ops::PoolKind::max, two, two, none, none};
    const auto last = [&](const Shape& s) { return TensorDesc{s, type, Layout::channels_last(s)}; };
    const Shape unpooled = ops::conv_dst_shape(c().src, c().conv(), c().filters);
    ops::ConvDesc conv{c().conv(), last(c().src), {c().weights(), type, Layout::any()}, last(unpooled)};
    return {conv, pool, last(ops::pool_dst_shape(unpooled, pool))};
  }
};

/// The number in channels-last order of element `i` of a plain tensor.
std::int64_t in_channels_last(const Shape& shape, std::int64_t i) {
  const Shape at = oracle::indices_of(shape, i);
  std::int64_t number = at[0];
  for (int k = 2; k < at.rank(); ++k) number = number * shape[k] + at[k];
  return number * shape[1] + at[1];
}

/// The element of the unpooled tensor that an argmax index of window `i` names.
std::int64_t named(const Shape& unpooled, const Shape& pooled, std::int64_t i, int index) {
  const Shape at = oracle::indices_of(pooled, i);
  std::int64_t element = at[0] * unpooled[1] + at[1];
  for (int k = 2; k < 5; ++k) element = element * unpooled[k] + 2 * at[k] + (index >> (4 - k) & 1);
  return element;
}

TEST_P(PooledConvTest, MatchesConvolutionAndPoolingOneAfterTheOther) {
  if (ctx().device().has_small_caches()) GTEST_SKIP() << "its kernels are for GPUs";
  for (const auto type : {DType::bf16, DType::f16}) {
    SCOPED_TRACE(to_string(type));
    const auto d = desc(type);
    const auto op = make(d);
    if (!op) continue;
    const Array x = rounded(oracle::random_uniform(c().src, "src"), type),
                w = rounded(oracle::random_uniform(c().weights(), "weights", -0.5, 0.5), type),
                b = c().bias ? oracle::random_uniform(Shape{c().filters}, "bias") : Array();
    auto without_activation = c().conv();
    without_activation.activation = {};
    const Array sums = oracle::conv_forward(x, w, b, without_activation);
    const Array want = oracle::pool_forward(oracle::eltwise_forward(sums, c().activation), d.pool);

    const auto dst = destination(ctx(), d.dst.shape, op->layout(Verb::forward, Role::dst), type);
    const auto argmax = scratch(ctx(), op->workspace_bytes());
    const auto run = [&](const Tensor& workspace) {
      run_forward("forward", *op,
                  {put(ctx(), x, op->layout(Verb::forward, Role::src), type),
                   put(ctx(), w, op->layout(Verb::forward, Role::weights), type),
                   b.empty() ? Tensor() : put(ctx(), b, Layout::plain(b.shape)), dst, workspace,
                   scratch(ctx(), op->scratch_bytes(Verb::forward))});
      check(dst, want, "pooled", tolerance(type));
    };
    run(argmax);
    const auto indices = raw_bytes(ctx(), argmax);
    const Array pooled = oracle::pool_forward(sums, d.pool);
    for (std::int64_t i = 0; i < want.elements(); ++i) {
      const int index = indices[static_cast<std::size_t>(in_channels_last(d.dst.shape, i))];
      ASSERT_LT(index, 8) << i;
      // The sums are not rounded before they are compared.
      ASSERT_NEAR(sums[named(sums.shape, d.dst.shape, i, index)], pooled[i], 1e-4) << i;
    }
    run({});  // inference needs no indices
  }
}

INSTANTIATE_TEST_SUITE_P(ConvMaxPool, PooledConvTest, ::testing::ValuesIn(on_every_context(pooled_conv_cases())),
                         CaseName());

}  // namespace
}  // namespace keelson::testing
