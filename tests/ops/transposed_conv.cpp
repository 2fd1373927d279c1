#include "engine/ops/transposed_conv.hpp"

#include "tests/ops/op_test.hpp"
#include "tests/ops/transposed_conv_cases.hpp"

namespace keelson::testing {
namespace {

using ops::Role;
using ops::Verb;

class TransposedConvTest : public CaseTest<TransposedConvCase> {
 protected:
  ops::TransposedConvDesc describe(LayoutChoice choice, DType type = DType::f32, DType result = DType::f32) {
    const auto tensor = [&](const Shape& s, DType t, bool is_src) -> TensorDesc {
      const bool any = choice == LayoutChoice::any || (choice == LayoutChoice::reader && !is_src);
      if (any) return {s, t, Layout::any()};
      return {s, t, choice == LayoutChoice::channels_last ? Layout::channels_last(s) : Layout::plain(s)};
    };
    ops::TransposedConvDesc d;
    d.params = c().params;
    d.src = tensor(c().src, type, true);
    d.weights = tensor(c().weights(), type, false);
    d.dst = tensor(c().dst(), result, false);
    return d;
  }

  /// Operands of the op's type, with what they hold.
  struct Operands {
    Array src, weights, bias, diff_dst;
  };
  Operands operands(DType type) {
    Operands x{rounded(oracle::random_uniform(c().src, "src"), type),
               rounded(oracle::random_uniform(c().weights(), "weights", -0.5, 0.5), type),
               {},
               rounded(oracle::random_uniform(c().dst(), "diff_dst"), type)};
    if (c().params.bias) x.bias = oracle::random_uniform(Shape{c().channels}, "bias");
    return x;
  }

  Tensor put_for(const ops::TransposedConv& op, Verb v, Role r, const Array& a, DType type) {
    return put(ctx(), a, op.layout(v, r), type);
  }
  Tensor result_of(const ops::TransposedConv& op, Verb v, Role r, const Shape& s, DType type) {
    return destination(ctx(), s, op.layout(v, r), type);
  }
  Tensor scratch_for(const ops::TransposedConv& op, Verb v) { return scratch(ctx(), op.scratch_bytes(v)); }

  void check_forward(ops::TransposedConv& op, const Operands& x, const std::string& what) {
    const auto& d = op.description();
    const auto src = put_for(op, Verb::forward, Role::src, x.src, d.src.dtype),
               weights = put_for(op, Verb::forward, Role::weights, x.weights, d.src.dtype),
               dst = result_of(op, Verb::forward, Role::dst, c().dst(), d.dst.dtype);
    const auto bias = x.bias.empty() ? Tensor() : put(ctx(), x.bias, Layout::plain(x.bias.shape));
    run_forward(what, op, {src, weights, bias, dst, scratch_for(op, Verb::forward)});
    check(dst, oracle::transposed_conv_forward(x.src, x.weights, x.bias, d.params), what + " dst");
  }

  void check_backward_data(ops::TransposedConv& op, const Operands& x, const std::string& what) {
    const auto& d = op.description();
    const auto diff_dst = put_for(op, Verb::backward_data, Role::diff_dst, x.diff_dst, d.src.dtype),
               weights = put_for(op, Verb::backward_data, Role::weights, x.weights, d.src.dtype),
               diff_src = result_of(op, Verb::backward_data, Role::diff_src, c().src, d.dst.dtype);
    run_backward_data(what, op, {diff_dst, weights, diff_src, scratch_for(op, Verb::backward_data)});
    check(diff_src, oracle::transposed_conv_backward_data(x.diff_dst, x.weights, c().src, c().params),
          what + " diff_src");
  }

  void check_backward_weights(ops::TransposedConv& op, const Operands& x, const std::string& what) {
    const auto& d = op.description();
    const auto src = put_for(op, Verb::backward_weights, Role::src, x.src, d.src.dtype),
               diff_dst = put_for(op, Verb::backward_weights, Role::diff_dst, x.diff_dst, d.src.dtype),
               diff_weights = result_of(op, Verb::backward_weights, Role::diff_weights, c().weights(), DType::f32);
    run_backward_weights(what, op, {src, diff_dst, diff_weights, {}, scratch_for(op, Verb::backward_weights)});
    // A library may sum in f32 and round the sums to the operands' type.
    check(diff_weights, oracle::transposed_conv_backward_weights(x.src, x.diff_dst, c().weights(), c().params),
          what + " diff_weights", tolerance(d.src.dtype));
  }

  void check_requested_layouts(const ops::TransposedConv& op, Verb v,
                               std::vector<std::pair<Role, TensorDesc>> operands) {
    for (const auto& [role, asked] : operands) {
      const Layout got = op.layout(v, role);
      EXPECT_FALSE(got.is_any()) << to_string(v) << " " << to_string(role);
      if (!asked.layout.is_any()) {
        EXPECT_EQ(got.describe(asked.shape), asked.layout.describe(asked.shape));
      }
    }
  }

  void check_cost(const ops::TransposedConv& op, const ops::TransposedConvDesc& d) {
    const auto count = oracle::transposed_conv_count(d.src.shape, d.weights.shape, d.params);
    const double least = static_cast<double>(d.src.elements() + d.weights.elements() + d.dst.elements()) * 4;
    for (const Verb v : {Verb::forward, Verb::backward_data, Verb::backward_weights}) {
      EXPECT_EQ(op.cost(v).flops, 2.0 * static_cast<double>(count)) << to_string(v);
      EXPECT_GE(op.cost(v).bytes, least) << to_string(v);
    }
  }
};

constexpr LayoutChoice transposed_layouts[] = {LayoutChoice::plain, LayoutChoice::channels_last, LayoutChoice::any,
                                               LayoutChoice::reader};

TEST_P(TransposedConvTest, MatchesOracle) {
  const Operands x = operands(DType::f32);
  for (const auto choice : transposed_layouts) {
    const auto what = fmt::format("{} ({}), {}", c().name, c().about, to_string(choice));
    SCOPED_TRACE(what);
    const auto d = describe(choice);
    const auto op = make(d);
    if (!op) continue;
    check_requested_layouts(*op, Verb::forward, {{Role::src, d.src}, {Role::weights, d.weights}, {Role::dst, d.dst}});
    check_requested_layouts(*op, Verb::backward_data,
                            {{Role::diff_src, d.src}, {Role::weights, d.weights}, {Role::diff_dst, d.dst}});
    check_requested_layouts(*op, Verb::backward_weights,
                            {{Role::src, d.src}, {Role::diff_weights, d.weights}, {Role::diff_dst, d.dst}});
    check_cost(*op, d);
    check_forward(*op, x, what + " forward");
    check_backward_data(*op, x, what + " backward_data");
    check_backward_weights(*op, x, what + " backward_weights");
  }
}

TEST_P(TransposedConvTest, SixteenBitsMatchOracle) {
  for (const auto type : {DType::bf16, DType::f16})
    for (const auto result : {type, DType::f32}) {
      const auto what = fmt::format("{}, {} to {}", c().name, to_string(type), to_string(result));
      const Operands x = operands(type);
      const auto op = make(describe(LayoutChoice::any, type, result));
      if (!op) continue;
      check_forward(*op, x, what + " forward");
      check_backward_data(*op, x, what + " backward_data");
      check_backward_weights(*op, x, what + " backward_weights");
    }
}

TEST_P(TransposedConvTest, EvaluationAllowsEveryActivation) {
  const Operands x = operands(DType::f32);
  for (const auto kind : {ops::EltwiseKind::gelu, ops::EltwiseKind::relu}) {
    auto d = describe(LayoutChoice::any);
    d.training = false;
    d.params.activation = {kind, 0, 0};
    const auto what = c().name + " in evaluation with " + to_string(d.params.activation);
    const auto op = make(d);
    if (op) check_forward(*op, x, what);
  }
}

TEST_P(TransposedConvTest, NanReachesExactlyWhatReadsIt) {
  Operands x = operands(DType::f32);
  x.src[x.src.elements() / 2] = x.diff_dst[x.diff_dst.elements() / 2] = nan;
  for (const auto choice : {LayoutChoice::plain, LayoutChoice::any}) {
    const auto what = fmt::format("{} with a NaN, {}", c().name, to_string(choice));
    auto d = describe(choice);
    d.exact = true;  // Winograd's algorithms hand a NaN to all results of its tile
    const auto op = make(d);
    if (!op) continue;
    check_forward(*op, x, what);
    check_backward_data(*op, x, what);
  }
}

INSTANTIATE_TEST_SUITE_P(TransposedConv, TransposedConvTest,
                         ::testing::ValuesIn(on_every_context(transposed_conv_cases())), CaseName());

}  // namespace
}  // namespace keelson::testing
