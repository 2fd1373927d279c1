#include "engine/ops/batch_norm.hpp"

#include "tests/ops/op_test.hpp"
#include "tests/oracle/batch_norm.hpp"

namespace keelson::testing {
namespace {

using ops::Verb;

constexpr float epsilon = 1e-5f;

struct BatchNormCase {
  std::string name, about;
  Shape src;
  std::int64_t samples;  ///< weights
  DType type = DType::f32;
  bool padding_only = false;  ///< all weights are 0
};

class BatchNormTest : public CaseTest<BatchNormCase> {
 protected:
  Layout plain(const Array& a) { return Layout::plain(a.shape); }
  Tensor whole(const Array& a, const Layout& layout) { return put(ctx(), a, layout, c().type); }
  Tensor values(const Array& a) { return put(ctx(), a, plain(a)); }
  Tensor result(const Shape& shape) { return destination(ctx(), shape, Layout::plain(shape)); }
  Tensor sums(std::int64_t count) { return put_f64(ctx(), Array(Shape{count}, 7.0)); }
  void check_f64(const Tensor& got, const Array& want, const std::string& what) {
    EXPECT_TRUE(close(get_f64(ctx(), got), want, what, {1e-6, 1e-6}));
  }
  std::optional<TensorDesc> desc(LayoutChoice choice) {
    const auto layout = layout_of(ctx(), choice, c().src);
    if (!layout) return std::nullopt;
    return TensorDesc{c().src, c().type, *layout};
  }

  /// The last sample is padding, if there are more; what it holds must not count.
  Array weight() {
    Array w(Shape{c().samples}, c().padding_only ? 0.0 : 1.0);
    if (c().samples > 1) w[c().samples - 1] = 0;
    return w;
  }
  /// What stays of a gradient, or of a value, in front of a ReLU of the normalised values.
  Array behind_relu(Array values, const Array& normalized) {
    for (std::int64_t i = 0; i < values.shape.elements(); ++i)
      if (!(normalized[i] > 0)) values[i] = 0;
    return values;
  }
  Shape channels{c().src[1]};
  // Far from 0, where sums of squares lose digits.
  Array x = rounded(oracle::random_uniform(c().src, "x", 2, 5), c().type);
  Array dy = rounded(oracle::random_uniform(c().src, "dy"), c().type);
  Array scale = oracle::random_uniform(channels, "scale", 0.5, 2), shift = oracle::random_uniform(channels, "shift");
};

TEST_P(BatchNormTest, SumsAndStatisticsMatchOracle) {
  const auto want = oracle::batch_statistics(x, weight());
  for (const auto choice : {LayoutChoice::plain, LayoutChoice::channels_last}) {
    const auto d = desc(choice);
    if (!d) continue;
    const auto what = fmt::format("{} {}", c().name, to_string(choice));
    const auto add_up = make(ops::BatchNormSumsDesc{*d, c().samples});
    const auto statistics = make(ops::BatchNormStatisticsDesc{channels[0]});
    if (!add_up || !statistics) continue;
    const Tensor total = sums(2 * channels[0] + 1), mean = result(channels), variance = result(channels);
    run_forward(what, *add_up,
                {whole(x, d->layout), values(weight()), total, scratch(ctx(), add_up->scratch_bytes(Verb::forward))});
    check_f64(total, want.sums, what + " sums");
    run_forward(what, *statistics, {total, mean, variance});
    check(mean, want.mean, what + " mean");
    check(variance, want.variance, what + " variance", {1e-5, 1e-5});
  }
}

TEST_P(BatchNormTest, NormalizesAsTheOracleDoes) {
  const auto s = oracle::batch_statistics(x, weight());
  for (const auto choice : {LayoutChoice::plain, LayoutChoice::channels_last, LayoutChoice::producer}) {
    const auto d = desc(choice);
    if (!d) continue;
    const auto want = oracle::batch_norm(x, s.mean, s.variance, scale, shift, epsilon);
    for (const bool relu : {false, true}) {
      const auto op = make(ops::BatchNormDesc{*d, epsilon, relu});
      if (!op) continue;
      const auto what = fmt::format("{} {}{}", c().name, to_string(choice), relu ? " relu" : "");
      const Tensor src = whole(x, d->layout), dst = destination(ctx(), c().src, d->layout, c().type);
      run_forward(what, *op, {src, values(s.mean), values(s.variance), values(scale), values(shift), dst});
      const auto t = c().type == DType::f32 ? Tolerance{1e-5, 1e-5} : tolerance(c().type);
      check(dst, relu ? behind_relu(want, want) : want, what, t);
    }
  }
}

TEST_P(BatchNormTest, GradientsMatchOracle) {
  const auto s = oracle::batch_statistics(x, weight());
  const auto y = oracle::batch_norm(x, s.mean, s.variance, scale, shift, epsilon);
  for (const auto choice : {LayoutChoice::plain, LayoutChoice::channels_last})
    for (const bool relu : {false, true}) {
      const auto d = desc(choice);
      if (!d) continue;
      const auto op = make(ops::BatchNormBackwardDesc{*d, c().samples, epsilon, relu});
      if (!op) continue;
      const auto want = oracle::batch_norm_backward(relu ? behind_relu(dy, y) : dy, x, weight(), scale, epsilon);
      const auto what = fmt::format("{} {}{}", c().name, to_string(choice), relu ? " relu" : "");
      const Tensor factor = values(scale), offset = relu ? values(shift) : Tensor();
      const Tensor src = whole(x, d->layout), diff_dst = whole(dy, d->layout), mean = values(s.mean),
                   variance = values(s.variance), diff_sums = sums(2 * channels[0]), diff_scale = result(channels),
                   diff_shift = result(channels), diff_src = destination(ctx(), c().src, d->layout, c().type);
      run_backward_weights(what, *op,
                           {src, diff_dst, mean, variance, diff_sums, diff_scale, diff_shift, relu ? factor : Tensor(),
                            offset, scratch(ctx(), op->scratch_bytes(Verb::backward_weights))});
      check(diff_scale, want.scale, what + " scale", {2e-5, 2e-5});
      check(diff_shift, want.shift, what + " shift");
      run_backward_data(what, *op,
                        {src, diff_dst, values(weight()), mean, variance, factor, put_f64(ctx(), s.sums), diff_sums,
                         diff_src, offset});
      check(diff_src, want.src, what + " src", c().type == DType::f32 ? Tolerance{2e-5, 2e-5} : tolerance(c().type));
    }
}

std::vector<BatchNormCase> batch_norm_cases() {
  std::vector<BatchNormCase> cases{
      {"matrix", "rows and features", {7, 5}, 7},
      {"image", "channels of two packs and one more", {3, 37, 5, 4}, 3},
      {"volume", "few channels", {2, 4, 3, 5, 2}, 2},
      {"batch_1", "one sample", {1, 16, 6, 6}, 1},
      {"rows", "several rows of one sample", {12, 20}, 4},
      {"large", "several partial sums", {4, 8, 40, 36}, 4},
      {"wide", "several tiles of rows and of 64 channels", {2, 200, 9, 7}, 2},
      {"padding", "no sample at all", {2, 20, 4, 5}, 2, DType::f32, true},
  };
  for (const auto type : {DType::bf16, DType::f16}) {
    for (auto c : {cases[1], cases[6]}) {
      c.name += type == DType::bf16 ? "_bf16" : "_f16";
      c.type = type;
      cases.push_back(c);
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cases, BatchNormTest, ::testing::ValuesIn(on_every_context(batch_norm_cases())), CaseName{});

class RunningStatisticsTest : public OpTest {};

TEST_F(RunningStatisticsTest, FollowTheBatchAndRestWhereTheStepIsSkipped) {
  for (const auto& name : contexts()) {
    use(name);
    const auto op = make(ops::RunningStatisticsDesc{2, 0.25f});
    if (!op) continue;
    // 4 values of mean 3 and variance 5, and of mean -1 and variance 0.
    const Tensor sums = put_f64(ctx(), Array({5}, {12, -4, 56, 4, 4}));
    const auto start = [&](std::vector<double> v) { return put(ctx(), Array({2}, std::move(v)), Layout::plain({2})); };
    Tensor mean = start({1, 1}), variance = start({1, 1});
    op->forward({sums, mean, variance});
    check(mean, Array({2}, {1.5, 0.5}), name);
    check(variance, Array({2}, {0.75 + 0.25 * 5 * 4 / 3, 0.75}), name);
    op->forward({sums, mean, variance, put_loss_scale(ctx(), {.skip = 1})});
    check(mean, Array({2}, {1.5, 0.5}), name + " skipped");
    op->forward({put_f64(ctx(), Array({5}, {3, 3, 9, 9, 1})), mean, variance});
    check(mean, Array({2}, {1.5, 0.5}), name + " of one value");
  }
}

/// The oracle against central differences of its own forward function.
TEST(OracleBatchNorm, GradientIsThatOfItsForwardFunction) {
  const Shape shape{3, 2, 2, 2};
  const Array x = oracle::random_uniform(shape, "x"), r = oracle::random_uniform(shape, "r");
  const Array w({3}, {1, 1, 0}), scale({2}, {0.7, -1.3}), shift({2}, {0.1, 0.2});
  const auto f = [&](const Array& src, const Array& a, const Array& b) {
    const auto s = oracle::batch_statistics(src, w);
    return oracle::dot(oracle::batch_norm(src, s.mean, s.variance, a, b, 1e-3), r);
  };
  const auto g = oracle::batch_norm_backward(r, x, w, scale, 1e-3);
  const Tolerance t{1e-7, 1e-7};
  EXPECT_TRUE(close(g.src, oracle::differences([&](auto& v) { return f(v, scale, shift); }, x), "src", t));
  EXPECT_TRUE(close(g.scale, oracle::differences([&](auto& v) { return f(x, v, shift); }, scale), "scale", t));
  EXPECT_TRUE(close(g.shift, oracle::differences([&](auto& v) { return f(x, scale, v); }, shift), "shift", t));
}

}  // namespace
}  // namespace keelson::testing
