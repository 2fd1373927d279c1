#include "engine/ops/update.hpp"

#include <cmath>
#include <limits>

#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

using ops::LarcMode;
using ops::UpdateKind;

struct UpdateCase {
  std::string name, about;
  ops::UpdateParams params;
  double loss_scale = 1;
  double param_scale = 1;
  float scale = 1;  ///< LossScale::scale
};

std::vector<UpdateCase> update_cases() {
  const auto sgd = UpdateKind::sgd, adam = UpdateKind::adam, lars = UpdateKind::lars, lion = UpdateKind::lion;
  return {
      {"sgd", "w -= lr g", {.kind = sgd}},
      {"sgd_decay", "L2", {.kind = sgd, .weight_decay = 0.01f, .lr_multiplier = 2}},
      {"momentum", "", {.kind = sgd, .momentum = 0.9f}},
      {"nesterov", "with decay", {.kind = sgd, .weight_decay = 0.1f, .momentum = 0.9f, .nesterov = true}},
      {"adam", "", {.kind = adam}},
      {"adam_l2", "decay within the moments", {.kind = adam, .weight_decay = 0.1f}},
      {"adam_large_epsilon",
       "epsilon outside the root",
       {.kind = adam, .beta1 = 0.8f, .beta2 = 0.95f, .epsilon = 0.1f}},
      {"adamw", "decoupled decay", {.kind = adam, .decoupled_decay = 0.1f, .lr_multiplier = 0.5f}},
      {"lion", "", {.kind = lion, .beta2 = 0.99f}},
      {"lion_decay", "decoupled decay", {.kind = lion, .decoupled_decay = 0.1f, .beta1 = 0.95f, .beta2 = 0.98f}},
      {"lion_no_gradient", "the sign of 0 is 0", {.kind = lion}, 0},
      {"scaled_lion",
       "a small beta2, so that moments of opposite signs do not cancel",
       {.kind = lion, .beta2 = 0.9f, .clip_norm = 0.5f},
       1024,
       1,
       1024},
      {"schedule_free", "", {.kind = UpdateKind::schedule_free}},
      {"schedule_free_decay",
       "decay of the point that layers read",
       {.kind = UpdateKind::schedule_free, .decoupled_decay = 0.1f, .beta1 = 0.8f, .beta2 = 0.95f, .lr_multiplier = 2}},
      {"scaled_schedule_free", "", {.kind = UpdateKind::schedule_free, .clip_norm = 0.5f}, 1024, 1, 1024},
      {"clipped", "the global norm is too large", {.kind = sgd, .momentum = 0.9f, .clip_norm = 0.5f}},
      {"not_clipped", "the global norm is small", {.kind = sgd, .momentum = 0.9f, .clip_norm = 1e6f}},
      {"clipped_adam", "no gradient at all", {.kind = adam, .clip_norm = 1}, 0},
      {"larc_scale", "g *= r", {.kind = sgd, .momentum = 0.9f, .larc = LarcMode::scale}},
      {"larc_clip", "CosmoFlow's paper code", {.kind = adam, .larc = LarcMode::clip, .larc_floor = 1.0f / 16000}},
      {"larc_clip_inactive", "tiny gradients: the factor stays 1", {.kind = sgd, .larc = LarcMode::clip}, 1e-6},
      {"larc_clip_relative",
       "divided by the learning rate",
       {.kind = sgd, .larc = LarcMode::clip, .larc_relative = true}},
      {"larc_floor_gradient",
       "|g| = 0",
       {.kind = sgd, .weight_decay = 0.1f, .larc = LarcMode::scale, .larc_floor = 0.5f},
       0},
      {"larc_floor_parameter", "|w| = 0", {.kind = sgd, .larc = LarcMode::clip, .larc_floor = 1.0f / 16000}, 1, 0},
      {"scaled",
       "gradients come 4096 times too large",
       {.kind = sgd, .weight_decay = 0.1f, .momentum = 0.9f},
       4096,
       1,
       4096},
      {"scaled_adam", "", {.kind = adam}, 1024, 1, 1024},
      {"scaled_clipped", "the norm that counts is the unscaled one", {.kind = sgd, .clip_norm = 0.5f}, 64, 1, 64},
      {"scaled_larc", "", {.kind = sgd, .momentum = 0.9f, .larc = LarcMode::clip}, 64, 1, 64},
      {"larc_decay",
       "decay before LARC",
       {.kind = sgd, .weight_decay = 0.1f, .momentum = 0.5f, .larc = LarcMode::scale, .larc_eta = 0.02f}},
      {"lars", "", {.kind = lars, .weight_decay = 0.01f, .momentum = 0.9f}},
      {"lars_rate_outside",
       "MLPerf's variant",
       {.kind = lars, .weight_decay = 0.01f, .momentum = 0.9f, .lr_multiplier = 2, .rate_in_momentum = false}},
      {"lars_plain",
       "no momentum, a large epsilon",
       {.kind = lars, .weight_decay = 0.1f, .epsilon = 0.5f, .lars_eta = 0.1f}},
      {"lars_no_gradient", "|g| = 0: the local rate is 1", {.kind = lars, .weight_decay = 0.1f, .momentum = 0.9f}, 0},
      {"lars_no_parameter", "|w| = 0", {.kind = lars, .momentum = 0.9f}, 1, 0},
      {"scaled_lars",
       "gradients come 64 times too large, and the norm that counts is the clipped one",
       {.kind = lars, .weight_decay = 0.1f, .momentum = 0.9f, .clip_norm = 0.5f},
       64,
       1,
       64},
  };
}

class UpdateTest : public CaseTest<UpdateCase> {
 protected:
  bool takes_norms() const { return c().params.larc != LarcMode::none || c().params.kind == UpdateKind::lars; }

  /// Three steps of one parameter in this layout, and the same by the oracle.
  void check_steps(const Shape& shape, const Layout& layout, const std::string& what) {
    const auto& p = c().params;
    const bool has_norms = takes_norms();
    const auto op = make(ops::UpdateDesc{p, {shape, DType::f32, layout}});
    if (!op) return;
    oracle::OptimizerState want{oracle::random_uniform(shape, "w"), Array(shape), Array(shape)};
    for (auto& v : want.param.data) v = static_cast<float>(v * c().param_scale);
    const int moments = moment_count(p);
    const auto param = put(ctx(), want.param, layout);
    const auto moment1 = moments > 0 ? put(ctx(), want.moment1, layout) : Tensor();
    const auto moment2 = moments > 1 ? put(ctx(), want.moment2, layout) : Tensor();
    for (std::uint64_t step = 0; step < 3; ++step) {
      Array g = oracle::random_uniform(shape, fmt::format("g{}", step));
      for (auto& v : g.data) v = static_cast<float>(v * c().loss_scale);
      const double own = oracle::sum_squares(g), global = own * 3;
      const auto diff = put(ctx(), g, layout);
      const auto norms =
          has_norms ? put_f64(ctx(), {Shape{2}, {oracle::sum_squares(get(ctx(), param)), own}}) : Tensor();
      const auto global_norm = p.clip_norm > 0 ? put_f64(ctx(), Array(Shape{1}, global)) : Tensor();
      const ops::StepParams now{.step = step, .learning_rate = 0.05f};
      const ops::LossScale loss_scale{.unscale = 1 / c().scale};
      const auto state = put_step_params(ctx(), now), scale = put_loss_scale(ctx(), loss_scale);
      const auto used =
          allocations_of([&] { op->forward({state, diff, {}, global_norm, norms, param, moment1, moment2, scale}); });
      EXPECT_LE(used.bytes, allowed_bytes());
      want = oracle::update(std::move(want), g, p, now, global, true, loss_scale);
      const auto at = fmt::format("{} ({}) after step {}", what, c().about, step);
      check(param, want.param, at);
      if (moment1) check(moment1, want.moment1, at + " moment1");
      if (moment2) check(moment2, want.moment2, at + " moment2");
      for (const auto& t : {param, moment1, moment2})
        if (t && t.layout().is_opaque()) {
          EXPECT_EQ(dirty_padding(ctx(), t), 0) << at;
        }
    }
  }
};

TEST_P(UpdateTest, MatchesOracle) {
  check_steps({1}, Layout::plain({1}), c().name + " on one element");
  const Shape weights{5, 3, 3, 3};
  check_steps(weights, Layout::plain(weights), c().name + " plain");
  check_steps(weights, Layout::channels_last(weights), c().name + " channels-last");
  const Shape padded{2, 17, 3, 3};
  if (const auto blocked = producer_layout(ctx(), padded)) check_steps(padded, *blocked, c().name + " blocked");
}

TEST_P(UpdateTest, ManyStepsLater) {
  const auto& p = c().params;
  if (p.kind != UpdateKind::adam) return;
  const Shape shape{7};
  const auto op = make(ops::UpdateDesc{p, TensorDesc::plain(shape)});
  if (!op) return;
  oracle::OptimizerState want{oracle::random_uniform(shape, "w"), oracle::random_uniform(shape, "m"),
                              Array(shape, 0.25)};
  const auto plain = Layout::plain(shape);
  const auto param = put(ctx(), want.param, plain), moment1 = put(ctx(), want.moment1, plain),
             moment2 = put(ctx(), want.moment2, plain);
  const Array g = oracle::random_uniform(shape, "g");
  const double own = oracle::sum_squares(g);
  const auto norms =
      p.larc != LarcMode::none ? put_f64(ctx(), {Shape{2}, {oracle::sum_squares(want.param), own}}) : Tensor();
  const auto global_norm = p.clip_norm > 0 ? put_f64(ctx(), Array(Shape{1}, own)) : Tensor();
  const ops::StepParams now{.step = 5'000'000'000, .learning_rate = 0.05f};
  op->forward({put_step_params(ctx(), now), put(ctx(), g, plain), {}, global_norm, norms, param, moment1, moment2});
  check(param, oracle::update(want, g, p, now, own).param, c().name + " after 5e9 steps");
}

TEST_P(UpdateTest, SkippedStepsMoveNothing) {
  const auto& p = c().params;
  const Shape shape{1001};
  const auto plain = Layout::plain(shape);
  const auto op = make(ops::UpdateDesc{p, TensorDesc::plain(shape)});
  if (!op) return;
  const Array w = oracle::random_uniform(shape, "w"), m = oracle::random_uniform(shape, "m"), v(shape, 0.25);
  const auto param = put(ctx(), w, plain), moment1 = put(ctx(), m, plain), moment2 = put(ctx(), v, plain);
  const Array g(shape, std::numeric_limits<double>::infinity());
  const auto norms = takes_norms() ? put_f64(ctx(), Array(Shape{2}, g[0])) : Tensor();
  const auto global_norm = p.clip_norm > 0 ? put_f64(ctx(), Array(Shape{1}, g[0])) : Tensor();
  op->forward({put_step_params(ctx(), {.step = 3, .learning_rate = 0.05f}),
               put(ctx(), g, plain),
               {},
               global_norm,
               norms,
               param,
               moment1,
               moment2,
               put_loss_scale(ctx(), {.skip = 1})});
  check(param, w, c().name, exact);
  check(moment1, m, c().name + " moment1", exact);
  check(moment2, v, c().name + " moment2", exact);
}

/// A NaN in a gradient reaches the whole parameter where LARS scales by a norm that is NaN, else its own element.
TEST_P(UpdateTest, NanShows) {
  const auto& p = c().params;
  const Shape shape{100};
  const auto plain = Layout::plain(shape);
  const auto op = make(ops::UpdateDesc{p, TensorDesc::plain(shape)});
  if (!op) return;
  Array g = oracle::random_uniform(shape, "g");
  g[17] = std::numeric_limits<double>::quiet_NaN();
  const Array w = oracle::random_uniform(shape, "w");
  const auto param = put(ctx(), w, plain), moment1 = put(ctx(), Array(shape), plain),
             moment2 = put(ctx(), Array(shape), plain);
  const double squares = oracle::sum_squares(g);
  const auto norms = takes_norms() ? put_f64(ctx(), {Shape{2}, {oracle::sum_squares(w), squares}}) : Tensor();
  const auto global_norm = p.clip_norm > 0 ? put_f64(ctx(), Array(Shape{1}, squares)) : Tensor();
  const auto state = put_step_params(ctx(), {.learning_rate = 0.05f});
  op->forward({state, put(ctx(), g, plain), {}, global_norm, norms, param, moment1, moment2});
  const Array moved = get(ctx(), param);
  for (std::int64_t i = 0; i < moved.elements(); ++i)
    if (i == 17 || p.kind == UpdateKind::lars) {
      EXPECT_TRUE(std::isnan(moved[i])) << i;
    }
}

TEST_P(UpdateTest, LarsWithoutNormsHasTheLocalRateOne) {
  const auto& p = c().params;
  if (p.kind != UpdateKind::lars) return;
  const Shape shape{7};
  const auto plain = Layout::plain(shape);
  const auto op = make(ops::UpdateDesc{p, TensorDesc::plain(shape)});
  if (!op) return;
  const Array w = oracle::random_uniform(shape, "w"), g = oracle::random_uniform(shape, "g");
  const auto param = put(ctx(), w, plain), moment1 = put(ctx(), Array(shape), plain);
  const ops::StepParams now{.learning_rate = 0.05f};
  const double squares = oracle::sum_squares(g);
  const auto global_norm = p.clip_norm > 0 ? put_f64(ctx(), Array(Shape{1}, squares)) : Tensor();
  op->forward({put_step_params(ctx(), now), put(ctx(), g, plain), {}, global_norm, {}, param, moment1, {}});
  check(param, oracle::update({w, Array(shape), {}}, g, p, now, squares, false).param, c().name);
}

INSTANTIATE_TEST_SUITE_P(Update, UpdateTest, ::testing::ValuesIn(on_every_context(update_cases())), CaseName());

struct SizeCase {
  std::string name, about;
  Shape shape;
};

class SumSquaresTest : public CaseTest<SizeCase> {};

TEST_P(SumSquaresTest, MatchesOracleInF64) {
  const Array x = oracle::random_uniform(c().shape, "x", -3, 3);
  for (const auto choice : {LayoutChoice::plain, LayoutChoice::channels_last, LayoutChoice::producer}) {
    const auto layout = layout_of(ctx(), choice, c().shape);
    if (!layout) continue;
    const auto op = make(ops::SumSquaresDesc{{c().shape, DType::f32, *layout}, 2});
    if (!op) continue;
    const auto src = put(ctx(), x, *layout);
    const auto sums = put_f64(ctx(), Array(Shape{4}, -1.0));
    const auto what = c().name + " " + to_string(choice);
    run_forward(what, *op, {src, sums});
    const Array want(Shape{4}, {-1, -1, oracle::sum_squares(x), -1});
    EXPECT_TRUE(close(get_f64(ctx(), sums), want, what, tolerance(DType::f64)));
  }
}

TEST_P(SumSquaresTest, NanShows) {
  Array x = oracle::random_uniform(c().shape, "x");
  x[x.elements() - 1] = std::numeric_limits<double>::quiet_NaN();
  const auto op = make(ops::SumSquaresDesc{TensorDesc::plain(c().shape)});
  if (!op) return;
  const auto sums = put_f64(ctx(), Array(Shape{1}));
  op->forward({put(ctx(), x, Layout::plain(c().shape)), sums});
  EXPECT_TRUE(std::isnan(get_f64(ctx(), sums)[0]));
}

INSTANTIATE_TEST_SUITE_P(SumSquares, SumSquaresTest,
                         ::testing::ValuesIn(on_every_context<SizeCase>({
                             {"one", "", {1}},
                             {"odd", "", {5, 17, 3, 3}},
                             {"large", "several blocks of a parallel sum", {100'003}},
                         })),
                         CaseName());

}  // namespace
}  // namespace keelson::testing
