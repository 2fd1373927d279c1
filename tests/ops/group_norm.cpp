#include "engine/ops/group_norm.hpp"

#include <cmath>

#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

constexpr double added_to_variance = 1e-3;

struct GroupNormCase {
  std::string name, about;
  Shape src;
  std::int64_t groups = 1;
  DType type = DType::f32;
  double middle = 0;  ///< of the values
};

struct NormalizedArrays {
  Array dst, mean, variance;
};

NormalizedArrays normalize(const GroupNormCase& c, const Array& src, const Array& scale, const Array& shift) {
  NormalizedArrays r{Array(c.src), Array(Shape{c.src[0], c.groups}), Array(Shape{c.src[0], c.groups})};
  const std::int64_t channels = c.src[1], positions = c.src.elements() / c.src[0] / channels;
  // In logical order, the elements of a group follow each other.
  const std::int64_t count = positions * channels / c.groups;
  for (std::int64_t g = 0; g < c.src[0] * c.groups; ++g) {
    double sum = 0, squares = 0;
    for (std::int64_t i = g * count; i < (g + 1) * count; ++i) sum += src[i];
    const double middle = sum / static_cast<double>(count);
    for (std::int64_t i = g * count; i < (g + 1) * count; ++i) squares += (src[i] - middle) * (src[i] - middle);
    r.mean[g] = middle;
    r.variance[g] = squares / static_cast<double>(count);
    const double inverse = 1 / std::sqrt(r.variance[g] + added_to_variance);
    for (std::int64_t i = g * count; i < (g + 1) * count; ++i) {
      const std::int64_t channel = i / positions % channels;
      r.dst[i] = (src[i] - middle) * inverse * scale[channel] + shift[channel];
    }
  }
  return r;
}

class GroupNormTest : public CaseTest<GroupNormCase> {
 protected:
  Tensor tensor(const Array& a, DType type = DType::f32) {
    const bool rows = a.shape.rank() <= 2;
    return put(ctx(), a, rows ? Layout::plain(a.shape) : Layout::channels_last(a.shape), type);
  }
  Tensor result(const Shape& shape, DType type = DType::f32) {
    return destination(ctx(), shape, shape.rank() <= 2 ? Layout::plain(shape) : Layout::channels_last(shape), type);
  }
};

TEST_P(GroupNormTest, MatchesOracleBothWays) {
  const Shape channels{c().src[1]}, groups{c().src[0], c().groups};
  Array x = oracle::random_uniform(c().src, "x", -3, 3);
  for (double& v : x.data) v = static_cast<float>(v + c().middle);
  x = rounded(x, c().type);
  const Array dy = rounded(oracle::random_uniform(c().src, "dy"), c().type);
  const Array w = oracle::random_uniform(channels, "w", 0.5, 2), b = oracle::random_uniform(channels, "b");
  const Tensor src = tensor(x, c().type), diff_dst = tensor(dy, c().type), scale = tensor(w), shift = tensor(b);
  const auto op = make(ops::GroupNormDesc{src.desc(), c().groups, static_cast<float>(added_to_variance)});
  if (!op) return;
  const auto extra = [&](ops::Verb v) { return scratch(ctx(), op->scratch_bytes(v)); };

  const Tensor dst = result(c().src, c().type), mean = result(groups), variance = result(groups);
  run_forward(c().name, *op, {src, scale, shift, dst, mean, variance, extra(ops::Verb::forward)});
  const NormalizedArrays want = normalize(c(), x, w, b);
  // Where the values are far from 0, differences of them have the error of the values.
  const bool far = c().middle != 0;
  check(dst, want.dst, c().name, far ? Tolerance{3e-4, 3e-4} : tolerance(c().type));
  check(mean, want.mean, c().name + " mean");
  check(variance, want.variance, c().name + " variance", far ? Tolerance{1e-4, 1e-4} : tolerance(DType::f32));

  const Tensor diff_scale = result(channels), diff_shift = result(channels),
               diff_sums = destination(ctx(), {2, c().src[0], c().groups}, Layout::plain({2, c().src[0], c().groups})),
               diff_src = result(c().src, c().type);
  const auto backward_weights = [&](const Tensor& joined) {
    run_backward_weights(c().name, *op,
                         {diff_dst, src, scale, mean, variance, diff_scale, diff_shift, diff_sums, joined,
                          extra(ops::Verb::backward_weights)});
  };
  backward_weights({});
  run_backward_data(c().name, *op,
                    {diff_dst, src, scale, mean, variance, diff_sums, diff_src, extra(ops::Verb::backward_data)});
  if (op->joins_backward()) {
    const Array apart = get(ctx(), diff_src), of_scale = get(ctx(), diff_scale);
    const Tensor joined = result(c().src, c().type);
    backward_weights(joined);
    EXPECT_EQ(get(ctx(), joined).data, apart.data);
    EXPECT_EQ(get(ctx(), diff_scale).data, of_scale.data);
  }
  if (far) return;  // differences of the oracle's results are not exact enough there
  const auto gradient = [&](const Array& at, const auto& loss) { return oracle::differences(loss, at); };
  check(diff_scale, gradient(w, [&](auto& v) { return oracle::dot(normalize(c(), x, v, b).dst, dy); }), "diff_scale");
  check(diff_shift, gradient(b, [&](auto& v) { return oracle::dot(normalize(c(), x, w, v).dst, dy); }), "diff_shift");
  check(diff_src, gradient(x, [&](auto& v) { return oracle::dot(normalize(c(), v, w, b).dst, dy); }),
        c().name + " diff_src");
}

TEST_P(GroupNormTest, KeepsNanInItsGroup) {
  Array x = rounded(oracle::random_uniform(c().src, "x", -3, 3), c().type);
  x[0] = nan;
  const Array ones = oracle::random_uniform({c().src[1]}, "w", 0.5, 2);
  const Tensor src = tensor(x, c().type), dst = result(c().src, c().type), scale = tensor(ones);
  const Shape groups{c().src[0], c().groups};
  const auto op = make(ops::GroupNormDesc{src.desc(), c().groups});
  if (!op) return;
  op->forward(
      {src, scale, scale, dst, result(groups), result(groups), scratch(ctx(), op->scratch_bytes(ops::Verb::forward))});
  const Array got = get(ctx(), dst);
  const std::int64_t in_group = c().src.elements() / c().src[0] / c().groups;
  for (std::int64_t i = 0; i < got.elements(); ++i) EXPECT_EQ(std::isnan(got[i]), i < in_group) << i;
}

INSTANTIATE_TEST_SUITE_P(Cases, GroupNormTest,
                         ::testing::ValuesIn(on_every_context<GroupNormCase>(
                             {{"rows", "layer normalization", {3, 5}},
                              {"one_row", "", {1, 37}},
                              {"long_row", "several blocks of sums", {1, 2500}},
                              {"many_rows", "more rows than a work item takes", {300, 15}},
                              {"rows_of_groups", "", {5, 12}, 3},
                              {"wide_rows", "several passes over channels", {40, 100}},
                              {"wide_rows_of_groups", "a group ends within a vector", {40, 70}, 7},
                              {"far", "values far from 0", {4, 33}, 1, DType::f32, 3000},
                              {"image", "one group", {2, 5, 3, 4}},
                              {"groups", "groups narrower than a vector", {2, 6, 5, 3}, 3},
                              {"each_channel", "instance normalization", {2, 4, 3, 3}, 4},
                              {"wide", "several vectors in each group", {1, 48, 3, 2}, 2},
                              {"far_image", "values far from 0", {2, 20, 6, 7}, 5, DType::f32, 3000},
                              {"volume", "", {3, 4, 2, 3, 5}, 2},
                              {"large", "several slots of sums", {2, 3, 30, 20}},
                              {"wide_image", "several passes over channels", {2, 88, 5, 3}, 4},
                              {"steps_1d", "", {2, 6, 7}, 2},
                              {"pixel", "one position", {3, 8, 1, 1}, 2},
                              {"rows_bf16", "", {4, 33}, 1, DType::bf16},
                              {"rows_f16", "", {4, 33}, 1, DType::f16},
                              {"image_bf16", "", {2, 16, 3, 5}, 4, DType::bf16},
                              {"image_f16", "", {2, 8, 3, 5}, 4, DType::f16}})),
                         CaseName{});

}  // namespace
}  // namespace keelson::testing
