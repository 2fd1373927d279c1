#include "engine/ops/batch_norm.hpp"
#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

constexpr double fold_epsilon = 1e-3;

struct FoldCase {
  std::string name, about;
  Shape weights;
  int axis = 0;
  bool bias = true;
  Shape strides = {};  ///< of the weights; empty: plain
};

class FoldBatchNormTest : public CaseTest<FoldCase> {};

TEST_P(FoldBatchNormTest, MatchesOracle) {
  const Shape& shape = c().weights;
  const Shape channels{shape[c().axis]};
  const auto lies = c().strides.empty() ? Layout::plain(shape) : Layout::strided(shape, c().strides);
  const auto op = make(ops::FoldBatchNormDesc{{shape, DType::f32, lies}, c().axis, static_cast<float>(fold_epsilon)});
  if (!op) return;
  const Array w = oracle::random_uniform(shape, "w"), b = oracle::random_uniform(channels, "b"),
              mean = oracle::random_uniform(channels, "mean"),
              variance = oracle::random_uniform(channels, "variance", 0, 4),
              scale = oracle::random_uniform(channels, "scale", -2, 2),
              shift = oracle::random_uniform(channels, "shift");
  Array want(shape), want_bias(channels);
  std::int64_t run = 1;
  for (int i = c().axis + 1; i < shape.rank(); ++i) run *= shape[i];
  const auto factor = [&](std::int64_t o) { return scale[o] / std::sqrt(variance[o] + fold_epsilon); };
  for (std::int64_t i = 0; i < shape.elements(); ++i) want[i] = w[i] * factor(i / run % channels[0]);
  for (std::int64_t o = 0; o < channels[0]; ++o)
    want_bias[o] = ((c().bias ? b[o] : 0) - mean[o]) * factor(o) + shift[o];

  const auto values = [&](const Array& a) { return put(ctx(), a, Layout::plain(a.shape)); };
  const Tensor dst = destination(ctx(), shape, lies), dst_bias = destination(ctx(), channels, Layout::plain(channels));
  run_forward(c().name, *op,
              {put(ctx(), w, lies), c().bias ? values(b) : Tensor(), values(mean), values(variance), values(scale),
               values(shift), dst, dst_bias, scratch(ctx(), op->scratch_bytes(ops::Verb::forward))});
  check(dst, want, c().name);
  check(dst_bias, want_bias, c().name + " bias");
}

INSTANTIATE_TEST_SUITE_P(
    Cases, FoldBatchNormTest,
    ::testing::ValuesIn(on_every_context(std::vector<FoldCase>{
        {"plain", "of a convolution", {7, 5, 3, 3}},
        {"no_bias", "the mean alone makes a bias", {7, 5, 3, 3}, 0, false},
        {"volume", "three spatial dims", {5, 3, 3, 1, 2}},
        {"depthwise", "one filter per channel", {37, 1, 3, 3}},
        {"transposed", "of a transposed convolution", {5, 7, 3, 3}, 1},
        {"points", "kernels of one element: channels side by side in the second dimension", {5, 7, 1, 1}, 1, false},
        {"one_channel", "all weights have one factor", {1, 5, 3, 3}},
        {"one_of_each", "one channel that reads one", {1, 1, 3, 3}, 1},
        {"channels_last", "in the order (O, k, I)", {7, 5, 3, 3}, 0, true, {45, 1, 15, 5}},
        {"filters_last", "in the order (k, I, O)", {7, 5, 3, 3}, 0, true, {1, 7, 105, 35}},
        {"filters_first", "of a transposed convolution in the order (O, k, I)", {5, 7, 3, 3}, 1, true, {1, 45, 15, 5}},
        {"gaps", "rows of 8 elements of which 5 count", {7, 5, 3, 3}, 0, true, {72, 1, 24, 8}},
        {"transposed_gaps", "the same in the second dimension", {5, 7, 3, 3}, 1, true, {1, 72, 24, 8}},
        {"large", "more than one block, which ends within a run", {64, 33, 3, 3}},
        {"large_filters_last", "the same, channels side by side", {70, 33, 3, 3}, 0, true, {1, 70, 6930, 2310}},
    })),
    CaseName{});

}  // namespace
}  // namespace keelson::testing
