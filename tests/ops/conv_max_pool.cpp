#include "engine/ops/conv_max_pool.hpp"

#include "backends/composed/dense_conv_max_pool.hpp"
#include "backends/kokkos/norm/channels.hpp"
#include "backends/kokkos/pool/conv_max_pool_device.hpp"
#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

using ops::Role;
using ops::Verb;

struct ConvMaxPoolCase {
  std::string name, about;
  Shape src;
  std::int64_t filters;
  Shape kernel, pad_begin, pad_end, window;
  bool bias = true;

  Shape weights() const {
    Shape s{filters, src[1]};
    for (auto k : kernel) s.push_back(k);
    return s;
  }
  ops::ConvParams conv() const {
    const Shape ones = Shape::filled(kernel.rank(), 1);
    return {kernel, ones, ones, pad_begin, pad_end, 1, bias, {}};
  }
  ops::PoolParams pool() const {
    const Shape none = Shape::filled(kernel.rank(), 0);
    return {ops::PoolKind::max, window, window, none, none};
  }
};

std::vector<ConvMaxPoolCase> conv_max_pool_cases() {
  const Shape k3{3, 3, 3}, same{1, 1, 1}, none{0, 0, 0}, w2{2, 2, 2};
  return {
      {"first_layer", "CosmoFlow's conv1: 4 channels", {2, 4, 8, 8, 8}, 32, k3, same, same, w2},
      {"one_channel", "a run of 3 floats", {1, 1, 6, 6, 8}, 16, k3, same, same, w2},
      {"channels_16", "runs of 3 vectors", {1, 16, 6, 4, 8}, 16, k3, same, same, w2},
      {"channels_32", "CosmoFlow's conv2: runs of 6 vectors", {2, 32, 4, 6, 8}, 64, k3, same, same, w2},
      {"channels_64", "runs of 12 vectors, an odd number of segments", {1, 64, 4, 4, 4}, 24, k3, same, same, w2},
      {"channels_128", "two segments a run", {1, 128, 4, 2, 4}, 16, k3, same, same, w2},
      {"channels_17", "runs and panels with a rest", {1, 17, 4, 4, 6}, 9, k3, same, same, w2},
      {"channels_80", "runs of 15 vectors, a panel with a rest", {1, 80, 2, 4, 4}, 5, k3, same, same, w2},
      {"odd_extents", "what the windows drop", {2, 3, 5, 7, 9}, 7, k3, same, same, w2},
      {"valid", "without padding, so src is read in place", {1, 16, 6, 6, 7}, 8, k3, none, none, w2},
      {"valid_with_rest", "a last vector that reaches behind src", {1, 5, 4, 4, 6}, 8, k3, none, none, w2},
      {"asymmetric",
       "unequal kernel, padding and window",
       {1, 6, 7, 8, 9},
       4,
       {2, 3, 4},
       {1, 0, 2},
       {0, 2, 1},
       {3, 2, 1}},
      {"pointwise", "a kernel of 1", {2, 8, 4, 4, 4}, 12, same, none, none, w2, false},
      {"two_dims", "2-D", {3, 12, 10, 12}, 20, {3, 3}, {1, 1}, {1, 1}, {2, 2}},
      {"five_taps", "2-D, 25 taps", {1, 7, 9, 8}, 6, {5, 5}, {2, 2}, {2, 2}, {3, 3}},
      {"many_windows",
       "more windows than are handled at once, a gradient summed in parts",
       {1, 4, 20, 18, 22},
       3,
       k3,
       same,
       same,
       w2},
      {"large",
       "operands larger than what a library may allocate for a call",
       {1, 16, 12, 12, 12},
       32,
       k3,
       same,
       same,
       w2},
  };
}

class ConvMaxPoolTest : public CaseTest<ConvMaxPoolCase> {};

TEST_P(ConvMaxPoolTest, MatchesPoolingAndConvolutionOneAfterTheOther) {
  const auto conv = c().conv();
  const auto pool = c().pool();
  const Shape unpooled = ops::conv_dst_shape(c().src, conv, c().filters), pooled = ops::pool_dst_shape(unpooled, pool);
  const auto any = [](const Shape& s) { return TensorDesc{s, DType::f32, Layout::any()}; };
  const auto op = make(ops::ConvMaxPoolDesc{conv, pool, any(c().src), any(c().weights()), any(pooled), true});
  if (!op) return;

  // Which element wins is all that matters of the values that are pooled.
  const Array x = oracle::random_uniform(c().src, "src"), y = oracle::random_distinct(unpooled, "unpooled"),
              dy = oracle::random_uniform(pooled, "diff_dst"),
              weights = oracle::random_uniform(c().weights(), "weights", -0.5, 0.5);
  const Array diff = oracle::pool_backward(dy, y, pool);
  const auto pooling =
      ctx().make(ops::PoolDesc{pool, {unpooled, DType::f32, Layout::channels_last(unpooled)}, any(pooled), true});
  ASSERT_EQ(pooling->layout(Verb::forward, Role::dst), op->layout(Verb::backward_weights, Role::diff_dst));
  const auto argmax = scratch(ctx(), pooling->workspace_bytes());
  pooling->forward({put(ctx(), y, Layout::channels_last(unpooled)),
                    destination(ctx(), pooled, pooling->layout(Verb::forward, Role::dst)), argmax});

  const auto src = put(ctx(), x, op->layout(Verb::backward_weights, Role::src));
  const auto diff_dst = put(ctx(), dy, op->layout(Verb::backward_weights, Role::diff_dst));
  const auto dw = destination(ctx(), c().weights(), op->layout(Verb::backward_weights, Role::diff_weights));
  const auto db = c().bias ? destination(ctx(), {c().filters}, Layout::plain({c().filters})) : Tensor();
  const auto extra = scratch(ctx(), op->scratch_bytes(Verb::backward_weights));
  run_backward_weights("backward weights", *op, {src, diff_dst, argmax, dw, db, extra});
  check(dw, oracle::conv_backward_weights(x, diff, c().weights(), conv), "diff_weights");
  if (c().bias) check(db, oracle::backward_bias(diff), "diff_bias");

  const auto w = put(ctx(), weights, op->layout(Verb::backward_data, Role::weights));
  const auto dx = destination(ctx(), c().src, op->layout(Verb::backward_data, Role::diff_src));
  const auto more = scratch(ctx(), op->scratch_bytes(Verb::backward_data));
  run_backward_data("backward data", *op, {diff_dst, argmax, w, dx, more});
  check(dx, oracle::conv_backward_data(diff, weights, c().src, conv), "diff_src");
}

INSTANTIATE_TEST_SUITE_P(ConvMaxPool, ConvMaxPoolTest, ::testing::ValuesIn(on_every_context(conv_max_pool_cases())),
                         CaseName());

TEST_P(ConvMaxPoolTest, DenseConvolutionsOfUnpooledPlanesMatch) {
  if (!ctx().device().has_small_caches()) GTEST_SKIP() << "its tiles are for CPUs";
  const auto conv = c().conv();
  const auto pool = c().pool();
  const Shape unpooled = ops::conv_dst_shape(c().src, conv, c().filters), pooled = ops::pool_dst_shape(unpooled, pool);
  const auto last = [](const Shape& s) { return TensorDesc{s, DType::f32, Layout::channels_last(s)}; };
  const Array y = oracle::random_distinct(unpooled, "unpooled");
  const auto pooling = context(network_contexts().back()).make(ops::PoolDesc{pool, last(unpooled), last(pooled), true});
  const auto argmax = scratch(ctx(), pooling->workspace_bytes());
  pooling->forward({put(ctx(), y, last(unpooled).layout), destination(ctx(), pooled, last(pooled).layout), argmax});

  allow_calls(2 * unpooled[0] * unpooled[2], ctx().describe().find("onednn") != std::string::npos);
  const auto plane = static_cast<std::size_t>(unpooled.elements() / (unpooled[0] * unpooled[2]));
  for (const auto type : {DType::f32, DType::bf16}) {
    const Array x = rounded(oracle::random_uniform(c().src, "src"), type),
                dy = rounded(oracle::random_uniform(pooled, "diff_dst"), type),
                w = rounded(oracle::random_uniform(c().weights(), "weights", -0.5, 0.5), type);
    const Array diff = oracle::pool_backward(dy, y, pool);
    const Array want_dw = oracle::conv_backward_weights(x, diff, c().weights(), conv),
                want_dx = oracle::conv_backward_data(diff, w, c().src, conv);
    for (const std::size_t planes : {std::size_t{1}, std::size_t{3}, std::size_t{1000}}) {
      SCOPED_TRACE(fmt::format("{}, tiles of {} planes", to_string(type), planes));
      ops::ConvMaxPoolDesc d{conv, pool, last(c().src), last(c().weights()), last(pooled)};
      d.exact = true;
      d.compute = type;
      const auto tile_bytes = planes * plane * size_of(type);
      const auto of_weights = composed::make_dense_conv_max_pool(d, Verb::backward_weights, ctx(), tile_bytes);
      const auto of_data = composed::make_dense_conv_max_pool(d, Verb::backward_data, ctx(), tile_bytes);
      const auto diff_dst = put(ctx(), dy, last(pooled).layout);
      if (of_weights.primitive) {
        const auto dw = destination(ctx(), c().weights(), d.weights.layout);
        const auto db = c().bias ? destination(ctx(), {c().filters}, Layout::plain({c().filters})) : Tensor();
        run_backward_weights("backward weights", *of_weights.primitive,
                             {put(ctx(), x, d.src.layout), diff_dst, argmax, dw, db,
                              scratch(ctx(), of_weights.primitive->scratch_bytes(Verb::backward_weights))});
        check(dw, want_dw, "diff_weights");
        if (c().bias) check(db, oracle::backward_bias(diff), "diff_bias");
      }
      if (of_data.primitive) {
        const auto dx = destination(ctx(), c().src, d.src.layout);
        run_backward_data("backward data", *of_data.primitive,
                          {diff_dst, argmax, put(ctx(), w, d.weights.layout), dx,
                           scratch(ctx(), of_data.primitive->scratch_bytes(Verb::backward_data))});
        check(dx, want_dx, "diff_src");
      }
      // oneDNN has kernels for some shapes only.
      if (type == DType::f32 && GetParam().context == network_contexts().back()) {
        EXPECT_TRUE(of_weights.primitive) << of_weights.unsupported_reason;
        EXPECT_TRUE(of_data.primitive) << of_data.unsupported_reason;
      }
    }
  }
}

/// What GPUs take: the gradient of the weights alone.
std::vector<ConvMaxPoolCase> weights_alone_cases() {
  const Shape k3{3, 3, 3}, same{1, 1, 1}, none{0, 0, 0}, w2{2, 2, 2};
  std::vector<ConvMaxPoolCase> cases = {
      {"first_layer", "CosmoFlow's conv1: 4 channels, a pack", {2, 4, 8, 8, 8}, 32, k3, same, same, w2},
      {"odd_extents", "what the windows drop", {2, 3, 5, 7, 9}, 7, k3, same, same, w2},
      {"valid", "no window is at the border", {1, 8, 6, 6, 8}, 8, k3, none, none, w2},
      {"wide_padding", "taps that never meet src", {1, 4, 3, 3, 3}, 5, k3, {3, 2, 4}, {4, 3, 2}, w2},
      {"asymmetric", "unequal padding and windows", {1, 4, 7, 8, 9}, 4, k3, {1, 0, 2}, {0, 2, 1}, {3, 2, 1}},
      {"depth_of_2", "a kernel of 2 x 3 x 3", {1, 4, 6, 6, 6}, 4, {2, 3, 3}, none, none, w2},
      {"pointwise", "a kernel of 1", {2, 8, 4, 4, 4}, 12, same, none, none, w2},
      {"pointwise_2d", "the same in 2-D, single channels", {2, 3, 6, 5}, 4, {1, 1}, {0, 0}, {0, 0}, {2, 2}},
      {"two_dims", "2-D", {3, 12, 10, 12}, 20, {3, 3}, {1, 1}, {1, 1}, {2, 2}},
      {"windows_of_3", "2-D", {1, 5, 11, 10}, 6, {3, 3}, {1, 1}, {1, 1}, {3, 3}},
      {"one_window", "a window that is the convolution's result", {1, 4, 4, 4}, 3, {3, 3}, {1, 1}, {1, 1}, {4, 4}},
      {"filters_16", "tensor cores: a block has 16 filters", {2, 4, 6, 10, 18}, 16, k3, same, same, w2},
      {"filters_48", "three blocks of 16 filters, 3 channels", {1, 3, 5, 7, 9}, 48, k3, same, same, w2},
      {"filters_64", "two blocks of 32 filters, 1 channel", {1, 1, 8, 8, 20}, 64, k3, none, none, w2},
      {"tiles", "tensor cores: many tiles", {2, 4, 24, 26, 44}, 32, k3, same, same, w2},
      {"slots", "a gradient summed in parts, and these in two steps", {1, 2, 24, 26, 22}, 3, k3, same, same, w2},
  };
  for (std::int64_t c = 1; c <= 9; ++c)
    cases.push_back(
        {fmt::format("channels_{}", c), "packs and single channels", {1, c, 4, 6, 5}, 5, k3, same, same, w2});
  for (auto& c : cases) c.bias = false;
  return cases;
}

class ArgmaxWeightsTest : public CaseTest<ConvMaxPoolCase> {};

TEST_P(ArgmaxWeightsTest, MatchesPoolingAndConvolutionInEveryType) {
  if (ctx().device().has_small_caches()) GTEST_SKIP() << "its kernels are for GPUs";
  const auto conv = c().conv();
  const auto pool = c().pool();
  const Shape unpooled = ops::conv_dst_shape(c().src, conv, c().filters), pooled = ops::pool_dst_shape(unpooled, pool);
  const auto last = [](const Shape& s, DType t) { return TensorDesc{s, t, Layout::channels_last(s)}; };
  for (const auto type : {DType::f32, DType::bf16, DType::f16}) {
    SCOPED_TRACE(to_string(type));
    const auto op = make(ops::ConvMaxPoolDesc{
        conv, pool, last(c().src, type), {c().weights(), DType::f32, Layout::any()}, last(pooled, type), false});
    if (!op) continue;
    const Array x = rounded(oracle::random_uniform(c().src, "src"), type),
                y = rounded(oracle::random_distinct(unpooled, "unpooled"), type),
                dy = rounded(oracle::random_uniform(pooled, "diff_dst"), type);
    const auto pooling = ctx().make(ops::PoolDesc{pool, last(unpooled, type), last(pooled, type), true});
    const auto argmax = scratch(ctx(), pooling->workspace_bytes());
    pooling->forward({put(ctx(), y, Layout::channels_last(unpooled), type),
                      destination(ctx(), pooled, Layout::channels_last(pooled), type), argmax});
    const auto dw = destination(ctx(), c().weights(), op->layout(Verb::backward_weights, Role::diff_weights));
    const auto extra = scratch(ctx(), op->scratch_bytes(Verb::backward_weights));
    const auto src = put(ctx(), x, op->layout(Verb::backward_weights, Role::src), type),
               diff_dst = put(ctx(), dy, op->layout(Verb::backward_weights, Role::diff_dst), type);
    run_backward_weights("backward weights", *op, {src, diff_dst, argmax, dw, Tensor(), extra});
    const Array want = oracle::conv_backward_weights(x, oracle::pool_backward(dy, y, pool), c().weights(), conv);
    // cuDNN's engines round the gradient (docs/gpus.md).
    check(dw, want, "diff_weights", tolerance(op->backend() == "cuda" ? type : DType::f32));

    // As the cuda backend has it: channels that mean nothing behind those of src, and weights in another layout.
    auto d = op->description();
    d.weights.layout = Layout::plain(c().weights());
    const auto channels = c().src[1], wide = (channels / 4 + 1) * 4, rows = src.elements() / channels;
    const auto padded = ctx().allocate(TensorDesc::plain({rows, wide}, type), "padded src");
    kokkos::copy_channels(src.raw(), type, channels, padded.raw(), type, wide, rows);
    const kokkos::ArgmaxWeights of_padded(d, wide);
    const auto plain = destination(ctx(), c().weights(), d.weights.layout),
               more = scratch(ctx(), of_padded.scratch_bytes());
    of_padded.run(padded.raw(), diff_dst.raw(), argmax.raw(), plain.data<float>(), more.raw());
    check(plain, want, "diff_weights from padded channels");
  }
}

INSTANTIATE_TEST_SUITE_P(ConvMaxPool, ArgmaxWeightsTest, ::testing::ValuesIn(on_every_context(weights_alone_cases())),
                         CaseName());

TEST(ConvMaxPool, GpusDeclineWhatTheyCannotDo) {
  Context& ctx = context(network_contexts().back());
  if (ctx.device().has_small_caches()) GTEST_SKIP() << "what GPUs decline";
  const auto why = [&](auto change) {
    ConvMaxPoolCase c{"", "", {1, 4, 8, 8, 8}, 8, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {2, 2, 2}, false};
    const Shape dst = ops::pool_dst_shape(ops::conv_dst_shape(c.src, c.conv(), c.filters), c.pool());
    ops::ConvMaxPoolDesc d{c.conv(),
                           c.pool(),
                           {c.src, DType::bf16, Layout::channels_last(c.src)},
                           {c.weights(), DType::f32, Layout::any()},
                           {dst, DType::bf16, Layout::channels_last(dst)},
                           false};
    change(d);
    std::string reason;
    return ctx.try_make(d, &reason) ? std::string() : reason;
  };
  const auto expect = [](const std::string& reason, const std::string& part) {
    EXPECT_NE(reason.find(part), reason.npos) << reason << " has not: " << part;
  };
  EXPECT_EQ(why([](auto&) {}), "");
  expect(why([](auto& d) { d.diff_src = true; }), "the gradient of src");
  expect(why([](auto& d) { d.conv.bias = true; }), "BiasGradient");
  expect(why([](auto& d) { d.conv.stride = {2, 2, 2}; }), "stride");
  expect(why([](auto& d) { d.pool.stride = {1, 1, 1}; }), "gaps, overlap");
  expect(why([](auto& d) { d.conv.kernel = {3, 3, 5}; }), "3 x 3");
  expect(why([](auto& d) { d.dst.dtype = DType::f32; }), "dst f32");
  expect(why([](auto& d) { d.dst.layout = Layout::any(); }), "dst is not channels-last");
  expect(why([](auto& d) { d.src.layout = Layout::plain(d.src.shape); }), "src is not channels-last");
}

TEST(ConvMaxPool, DeclinesWhatItCannotDo) {
  const ConvMaxPoolCase plain{"", "", {1, 4, 8, 8, 8}, 8, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {2, 2, 2}};
  const auto accepted = [&](auto change) {
    ops::ConvMaxPoolDesc d{
        plain.conv(), plain.pool(), TensorDesc::plain(plain.src), TensorDesc::plain(plain.weights()), {}};
    d.src.layout = d.weights.layout = Layout::any();
    change(d);
    const Shape unpooled = ops::conv_dst_shape(d.src.shape, d.conv, plain.filters);
    if (d.dst.shape.rank() == 0) d.dst = {ops::pool_dst_shape(unpooled, d.pool), DType::f32, Layout::any()};
    return context(network_contexts().back()).try_make(d) != nullptr;
  };
  if (!context(network_contexts().back()).device().has_small_caches()) GTEST_SKIP() << "its kernels are for CPUs";
  EXPECT_TRUE(accepted([](auto&) {}));
  EXPECT_FALSE(accepted([](auto& d) { d.conv.stride = {2, 2, 2}; }));
  EXPECT_FALSE(accepted([](auto& d) { d.conv.dilation = {2, 2, 2}; }));
  EXPECT_FALSE(accepted([](auto& d) { d.conv.groups = 2; }));
  EXPECT_FALSE(accepted([](auto& d) { d.pool.stride = {1, 1, 1}; }));
  EXPECT_FALSE(accepted([](auto& d) { d.pool.pad_begin = {1, 0, 0}; }));
  EXPECT_FALSE(accepted([](auto& d) { d.pool.kernel = d.pool.stride = {1, 1, 2}; }));
  EXPECT_FALSE(accepted([](auto& d) { d.pool.kind = ops::PoolKind::average; }));
  EXPECT_FALSE(accepted([](auto& d) { d.src.layout = Layout::plain(d.src.shape); }));
}

}  // namespace
}  // namespace keelson::testing
