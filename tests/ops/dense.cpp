#include "engine/ops/dense.hpp"

#include <limits>

#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

using ops::Role;
using ops::Verb;

struct DenseCase {
  std::string name, about;
  std::int64_t batch, in, out;
  ops::DenseParams params;
};

constexpr ops::EltwiseParams leaky{ops::EltwiseKind::leaky_relu, 0.3f, 0};

std::vector<DenseCase> dense_cases() {
  return {
      {"one_element", "everything is 1", 1, 1, 1, {}},
      {"odd", "", 3, 37, 5, {true, leaky}},
      {"one_sample", "a matrix-vector product", 1, 129, 33, {true, {ops::EltwiseKind::tanh, 0, 0}}},
      {"one_output", "", 4, 19, 1, {}},
      {"blocks", "multiples of 16", 16, 64, 32, {true, {ops::EltwiseKind::relu, 0, 0}}},
      {"no_bias", "", 2, 17, 16, {false, leaky}},
      {"wide", "CosmoFlow's first dense layer at 64^3", 2, 4096, 24, {true, leaky}},
      {"hidden", "of a small network", 32, 64, 64, {true, {ops::EltwiseKind::relu, 0, 0}}},
      {"ragged", "no multiples of 8", 31, 41, 29, {true, {ops::EltwiseKind::relu, 0, 0}}},
      {"packed", "large enough for packed panels", 101, 150, 211, {true, {ops::EltwiseKind::tanh, 0, 0}}},
      {"packed_wide", "", 64, 1100, 50, {true, leaky}},
      {"packed_rows", "so few panels that workers share the rows", 420, 40, 430, {true, leaky}},
      {"tall", "more rows than columns", 65, 3, 7, {true, {ops::EltwiseKind::sigmoid, 0, 0}}},
  };
}

class DenseTest : public CaseTest<DenseCase> {
 protected:
  ops::DenseDesc describe(LayoutChoice choice) {
    const auto tensor = [&](const Shape& s, bool is_src) -> TensorDesc {
      const bool any = choice == LayoutChoice::any || (choice == LayoutChoice::reader && !is_src);
      return {s, DType::f32, any ? Layout::any() : Layout::plain(s)};
    };
    return {c().params, tensor({c().batch, c().in}, true), tensor({c().out, c().in}, false),
            tensor({c().batch, c().out}, false)};
  }

  void check_all(LayoutChoice choice, const Array& x, const Array& dy, bool nan) {
    const auto d = describe(choice);
    const auto op = make(d);
    if (!op) return;
    const auto what = fmt::format("{} ({}), {}", c().name, c().about, to_string(choice));
    SCOPED_TRACE(what);
    const Array w = oracle::random_uniform(d.weights.shape, "weights", -0.5, 0.5);
    const Array b = c().params.bias ? oracle::random_uniform(Shape{c().out}, "bias") : Array();
    const auto bias = b.empty() ? Tensor() : put(ctx(), b, Layout::plain(b.shape));
    const auto place = [&](Verb v, Role r, const Array& a) { return put(ctx(), a, op->layout(v, r)); };
    const auto result = [&](Verb v, Role r, const Shape& s) { return destination(ctx(), s, op->layout(v, r)); };
    {
      const auto v = Verb::forward;
      const auto src = place(v, Role::src, x), weights = place(v, Role::weights, w),
                 dst = result(v, Role::dst, d.dst.shape);
      const auto extra = scratch(ctx(), op->scratch_bytes(v));
      run_forward(what + " forward", *op, {src, weights, bias, dst, extra});
      check(dst, oracle::dense_forward(x, w, b, c().params), what + " dst");
    }
    {
      const auto v = Verb::backward_data;
      const auto diff_dst = place(v, Role::diff_dst, dy), weights = place(v, Role::weights, w);
      const auto diff_src = result(v, Role::diff_src, d.src.shape), extra = scratch(ctx(), op->scratch_bytes(v));
      run_backward_data(what + " backward_data", *op, {diff_dst, weights, diff_src, extra});
      check(diff_src, oracle::dense_backward_data(dy, w), what + " diff_src");
    }
    if (nan) return;
    {
      const auto v = Verb::backward_weights;
      const auto src = place(v, Role::src, x), diff_dst = place(v, Role::diff_dst, dy);
      const auto diff_weights = result(v, Role::diff_weights, d.weights.shape),
                 extra = scratch(ctx(), op->scratch_bytes(v));
      std::vector<Tensor> outputs{diff_weights};
      Tensor diff_bias;
      if (c().params.bias) outputs.push_back(diff_bias = destination(ctx(), b.shape, Layout::plain(b.shape)));
      run_backward_weights(what + " backward_weights", *op, {src, diff_dst, diff_weights, diff_bias, extra});
      check(diff_weights, oracle::dense_backward_weights(x, dy), what + " diff_weights");
      if (c().params.bias) check(diff_bias, oracle::backward_bias(dy), what + " diff_bias");
    }
    std::int64_t multiply_adds = 0;
    for (std::int64_t n = 0; n < c().batch; ++n)
      for (std::int64_t o = 0; o < c().out; ++o) multiply_adds += c().in;
    EXPECT_EQ(ops::dense_flops(d), 2.0 * static_cast<double>(multiply_adds));
    for (const Verb v : {Verb::forward, Verb::backward_data, Verb::backward_weights})
      EXPECT_EQ(op->cost(v).flops, ops::dense_flops(d));
  }
};

constexpr LayoutChoice dense_layouts[] = {LayoutChoice::plain, LayoutChoice::any, LayoutChoice::reader};

TEST_P(DenseTest, MatchesOracle) {
  Array x = oracle::random_uniform(Shape{c().batch, c().in}, "src");
  const Array dy = oracle::random_uniform(Shape{c().batch, c().out}, "diff_dst");
  for (std::int64_t i = 0; i < x.elements(); i += 3) x[i] = 0;
  for (const auto choice : dense_layouts) check_all(choice, x, dy, false);
}

TEST_P(DenseTest, NanReachesExactlyItsSample) {
  Array x = oracle::random_uniform(Shape{c().batch, c().in}, "src"),
        dy = oracle::random_uniform(Shape{c().batch, c().out}, "diff_dst");
  x[x.elements() / 2] = dy[dy.elements() / 2] = std::numeric_limits<double>::quiet_NaN();
  for (const auto choice : dense_layouts) check_all(choice, x, dy, true);
}

INSTANTIATE_TEST_SUITE_P(Dense, DenseTest, ::testing::ValuesIn(on_every_context(dense_cases())), CaseName());

}  // namespace
}  // namespace keelson::testing
