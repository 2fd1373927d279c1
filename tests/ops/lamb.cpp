#include "engine/ops/lamb.hpp"

#include <cmath>
#include <limits>

#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

struct LambCase {
  std::string name, about;
  ops::LambParams params;
  bool scaled = true;  ///< by the trust ratio
  double loss_scale = 1, param_scale = 1;
  float scale = 1;  ///< LossScale::scale
  float norm_min = 0, norm_max = std::numeric_limits<float>::infinity();
};

std::vector<LambCase> lamb_cases() {
  return {
      {"published", "decay and clip", {.decoupled_decay = 0.01f, .clip_norm = 1}},
      {"not_clipped", "the global norm is small", {.decoupled_decay = 0.01f, .clip_norm = 1e6f}},
      {"plain", "no decay, no ratio", {}, false},
      {"nvlamb", "no decay, but the ratio", {}},
      {"l2",
       "decay within the moments; epsilon is large, since a sum near 0 has few correct digits",
       {.epsilon = 0.01f, .weight_decay = 0.1f, .clip_norm = 1}},
      {"not_averaged", "m = beta1 m + x", {.decoupled_decay = 0.1f, .average_gradients = false}},
      {"large_epsilon",
       "epsilon outside the root",
       {.beta1 = 0.8f, .beta2 = 0.95f, .epsilon = 0.1f, .decoupled_decay = 0.1f}},
      {"no_gradient", "the direction has norm 0: the ratio is 1", {}, true, 0},
      {"no_parameter", "|w| = 0: the ratio is 1", {.decoupled_decay = 0.1f}, true, 1, 0},
      {"scaled_gradients",
       "they come 4096 times too large",
       {.decoupled_decay = 0.1f, .clip_norm = 1},
       true,
       4096,
       1,
       4096},
      {"norm_clipped_above", "phi(|w|)", {.decoupled_decay = 0.1f}, true, 1, 1, 1, 0, 0.25f},
      {"norm_clipped_below", "phi(|w|)", {.decoupled_decay = 0.1f}, true, 1, 1, 1, 50},
  };
}

class LambTest : public CaseTest<LambCase> {
 protected:
  /// A parameter and its states in one layout.
  struct State {
    Tensor param, exp_avg, exp_avg_sq, direction;
  };
  State state_of(const oracle::OptimizerState& s, const Layout& layout) {
    return {put(ctx(), s.param, layout), put(ctx(), s.moment1, layout), put(ctx(), s.moment2, layout),
            put(ctx(), Array(s.param.shape, 7), layout)};
  }

  /// One step of the two ops; `squares`: of all gradients.
  void step(ops::LambDirection& direction, ops::LambStep& move, const State& s, const Tensor& diff, double squares,
            const ops::StepParams& now, const ops::LossScale& loss_scale = {}) {
    const auto params = put_step_params(ctx(), now), scale = put_loss_scale(ctx(), loss_scale);
    const auto global_norm = c().params.clip_norm > 0 ? put_f64(ctx(), Array(Shape{1}, squares)) : Tensor();
    direction.forward({params, diff, global_norm, s.param, s.exp_avg, s.exp_avg_sq, s.direction, scale});
    Tensor norms;
    if (c().scaled)
      norms = put_f64(
          ctx(), {Shape{2}, {oracle::sum_squares(get(ctx(), s.param)), oracle::sum_squares(get(ctx(), s.direction))}});
    move.forward({params, s.direction, norms, s.param, scale});
  }

  ops::LambStepDesc step_desc(const TensorDesc& d) const { return {d, 0.5f, c().norm_min, c().norm_max}; }

  void check_steps(const Shape& shape, const Layout& layout, const std::string& what) {
    const TensorDesc desc{shape, DType::f32, layout};
    const auto direction = make(ops::LambDirectionDesc{c().params, desc});
    const auto move = make(step_desc(desc));
    if (!direction || !move) return;
    oracle::OptimizerState want{oracle::random_uniform(shape, "w"), Array(shape), Array(shape)};
    for (auto& v : want.param.data) v = static_cast<float>(v * c().param_scale);
    const auto s = state_of({want.param, want.moment1, want.moment2}, layout);
    for (std::uint64_t i = 0; i < 3; ++i) {
      Array g = oracle::random_uniform(shape, fmt::format("g{}", i));
      for (auto& v : g.data) v = static_cast<float>(v * c().loss_scale);
      const double squares = 3 * oracle::sum_squares(g);
      const ops::StepParams now{.step = i, .learning_rate = 0.05f};
      const ops::LossScale scale{.unscale = 1 / c().scale};
      step(*direction, *move, s, put(ctx(), g, layout), squares, now, scale);
      const Array u = oracle::lamb_direction(want, g, c().params, now, squares, scale);
      oracle::lamb_step(want.param, u, step_desc(desc), now, c().scaled, scale);
      const auto at = fmt::format("{} ({}) after step {}", what, c().about, i);
      check(s.direction, u, at + " direction");
      check(s.param, want.param, at);
      check(s.exp_avg, want.moment1, at + " exp_avg");
      check(s.exp_avg_sq, want.moment2, at + " exp_avg_sq");
      for (const auto& t : {s.param, s.exp_avg, s.exp_avg_sq, s.direction})
        if (t.layout().is_opaque()) {
          EXPECT_EQ(dirty_padding(ctx(), t), 0) << at;
        }
    }
  }
};

TEST_P(LambTest, MatchesOracle) {
  check_steps({1}, Layout::plain({1}), c().name + " on one element");
  const Shape weights{5, 3, 3, 3};
  check_steps(weights, Layout::plain(weights), c().name + " plain");
  check_steps(weights, Layout::channels_last(weights), c().name + " channels-last");
  check_steps({70'001}, Layout::plain({70'001}), c().name + " of several blocks");
  const Shape padded{2, 17, 3, 3};
  if (const auto blocked = producer_layout(ctx(), padded)) check_steps(padded, *blocked, c().name + " blocked");
}

/// Sources keep their bits, results repeat, nothing is allocated.
TEST_P(LambTest, KeepsThePromisesOfAllOps) {
  const Shape shape{5, 17};
  const auto plain = Layout::plain(shape);
  const auto move = make(step_desc(TensorDesc::plain(shape)));
  const auto direction = make(ops::LambDirectionDesc{c().params, TensorDesc::plain(shape)});
  if (!direction || !move) return;
  const auto s = state_of({oracle::random_uniform(shape, "w"), Array(shape), Array(shape)}, plain);
  const auto diff = put(ctx(), oracle::random_uniform(shape, "g"), plain);
  const auto params = put_step_params(ctx(), {.learning_rate = 0.05f});
  const auto squares = put_f64(ctx(), Array(Shape{1}, 9.0)), norms = put_f64(ctx(), {Shape{2}, {4.0, 9.0}});
  EXPECT_LE(allocations_of([&] {
              direction->forward({params, diff, squares, s.param, s.exp_avg, s.exp_avg_sq, s.direction});
              move->forward({params, s.direction, norms, s.param});
            }).bytes,
            2 * allowed_bytes());
  const Array g = get(ctx(), diff), u = get(ctx(), s.direction);
  move->forward({params, s.direction, norms, s.param});
  check(diff, g, "gradient", exact);
  check(s.direction, u, "direction", exact);
}

TEST_P(LambTest, SkippedStepsMoveNothing) {
  const Shape shape{1001};
  const auto plain = Layout::plain(shape);
  const auto direction = make(ops::LambDirectionDesc{c().params, TensorDesc::plain(shape)});
  const auto move = make(step_desc(TensorDesc::plain(shape)));
  if (!direction || !move) return;
  const oracle::OptimizerState before{oracle::random_uniform(shape, "w"), oracle::random_uniform(shape, "m"),
                                      Array(shape, 0.25)};
  const auto s = state_of(before, plain);
  const double infinity = std::numeric_limits<double>::infinity();
  step(*direction, *move, s, put(ctx(), Array(shape, infinity), plain), infinity, {.step = 3, .learning_rate = 0.05f},
       {.skip = 1});
  check(s.param, before.param, c().name, exact);
  check(s.exp_avg, before.moment1, c().name + " exp_avg", exact);
  check(s.exp_avg_sq, before.moment2, c().name + " exp_avg_sq", exact);
  check(s.direction, Array(shape), c().name + " direction", exact);
}

TEST_P(LambTest, NanShows) {
  const Shape shape{100};
  const auto plain = Layout::plain(shape);
  const auto direction = make(ops::LambDirectionDesc{c().params, TensorDesc::plain(shape)});
  const auto move = make(step_desc(TensorDesc::plain(shape)));
  if (!direction || !move) return;
  const auto s = state_of({oracle::random_uniform(shape, "w"), Array(shape), Array(shape)}, plain);
  Array g = oracle::random_uniform(shape, "g");
  g[17] = std::numeric_limits<double>::quiet_NaN();
  step(*direction, *move, s, put(ctx(), g, plain), oracle::sum_squares(g), {.learning_rate = 0.05f});
  const Array w = get(ctx(), s.param);
  for (std::int64_t i = 0; i < w.elements(); ++i)
    if (i == 17 || c().scaled) {
      EXPECT_TRUE(std::isnan(w[i])) << i;
    }
}

INSTANTIATE_TEST_SUITE_P(Lamb, LambTest, ::testing::ValuesIn(on_every_context(lamb_cases())), CaseName());

TEST(Lamb, DeclinesAnEpsilonOfZero) {
  std::string why;
  EXPECT_EQ(context("kokkos").try_make(ops::LambDirectionDesc{{.epsilon = 0}, TensorDesc::plain({4})}, &why), nullptr);
  EXPECT_NE(why.find("epsilon is 0, expected a number above 0"), std::string::npos) << why;
}

}  // namespace
}  // namespace keelson::testing
