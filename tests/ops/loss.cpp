#include "engine/ops/loss.hpp"

#include <limits>

#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

using ops::LossKind;

struct LossCase {
  std::string name, about;
  ops::LossParams params;
  std::int64_t samples, features, rows_per_sample = 1;
};

std::vector<LossCase> loss_cases() {
  std::vector<LossCase> cases;
  const std::pair<std::string, ops::LossParams> kinds[] = {{"mse", {LossKind::mse, 1}},
                                                           {"mae", {LossKind::mae, 1}},
                                                           {"huber", {LossKind::huber, 0.75f}},
                                                           {"cross_entropy", {LossKind::cross_entropy, 1}}};
  for (const auto& [name, params] : kinds) {
    cases.push_back({name, "one sample, one feature", params, 1, 1});
    cases.push_back({name + "_cosmoflow", "4 parameters", params, 5, 4});
    cases.push_back({name + "_rows", "64 rows share a target", params, 2, 3, 64});
    cases.push_back({name + "_wide", "many features", params, 3, 1001});
  }
  return cases;
}

class LossTest : public CaseTest<LossCase> {
 protected:
  void SetUp() override {
    CaseTest::SetUp();
    const Shape rows{c().samples * c().rows_per_sample, c().features};
    prediction = oracle::random_uniform(rows, "prediction", -2, 2);
    if (c().params.kind == LossKind::cross_entropy) {
      target = oracle::random_integers({c().samples}, "class", 0, static_cast<int>(c().features) - 1);
    } else {
      target = oracle::random_uniform({c().samples, c().features}, "target", -2, 2);
      prediction[0] = target[0];  // |d| = 0
    }
    weight = Array({c().samples}, 1.0);
    if (c().samples > 1) weight[1] = 0;  // padding of a short batch
  }

  Tensor put_target() {
    return c().params.kind == LossKind::cross_entropy ? put_classes(ctx(), target)
                                                      : put(ctx(), target, Layout::plain(target.shape));
  }

  std::unique_ptr<ops::Loss> make_loss() {
    const auto type = c().params.kind == LossKind::cross_entropy ? DType::s32 : DType::f32;
    return make(ops::LossDesc{c().params, TensorDesc::plain(prediction.shape), TensorDesc::plain(target.shape, type),
                              c().rows_per_sample});
  }

  void check_both(ops::Loss& op, const std::string& what) {
    const ops::StepState now{.loss_scale = 0.125f};
    const auto state = put_state(ctx(), now);
    const auto p = put(ctx(), prediction, Layout::plain(prediction.shape)),
               w = put(ctx(), weight, Layout::plain(weight.shape));
    const auto t = put_target(), loss = put_f64(ctx(), Array(Shape{1}, 3e33));
    run(what, {loss}, [&] { op.forward(state, p, t, w, loss); });
    const Array want(Shape{1}, oracle::loss_forward(prediction, target, weight, c().params, now, c().rows_per_sample));
    EXPECT_TRUE(close(get_f64(ctx(), loss), want, what));
    const auto diff = destination(ctx(), prediction.shape, Layout::plain(prediction.shape));
    run(what, {diff}, [&] { op.backward(state, p, t, w, diff); });
    check(diff, oracle::loss_backward(prediction, target, weight, c().params, now, c().rows_per_sample),
          what + " diff_prediction");
  }

  Array prediction, target, weight;
};

TEST_P(LossTest, MatchesOracle) {
  if (const auto op = make_loss()) check_both(*op, c().name + ": " + c().about);
}

TEST_P(LossTest, LargePredictionsStayFinite) {
  for (auto& v : prediction.data) v *= 300;
  if (const auto op = make_loss()) check_both(*op, c().name + " x 300");
}

TEST_P(LossTest, NanPredictionGivesNanLoss) {
  prediction[c().features - 1] = std::numeric_limits<double>::quiet_NaN();
  if (const auto op = make_loss()) check_both(*op, c().name + " with a NaN");
}

TEST_P(LossTest, PaddedSamplesCountForNothing) {
  if (c().samples < 2) return;
  const auto op = make_loss();
  if (!op) return;
  const auto state = put_state(ctx(), {.loss_scale = 0.5f});
  const auto w = put(ctx(), weight, Layout::plain(weight.shape)), t = put_target();
  const auto loss_of = [&] {
    const auto p = put(ctx(), prediction, Layout::plain(prediction.shape)), loss = put_f64(ctx(), Array(Shape{1}));
    op->forward(state, p, t, w, loss);
    return get_f64(ctx(), loss)[0];
  };
  const double before = loss_of();
  const auto row = c().rows_per_sample * c().features;
  for (const double garbage : {1.0, std::numeric_limits<double>::quiet_NaN()}) {
    for (auto i = row; i < 2 * row; ++i) prediction[i] = garbage;
    EXPECT_EQ(loss_of(), before) << garbage;
    const auto p = put(ctx(), prediction, Layout::plain(prediction.shape));
    const auto diff = destination(ctx(), prediction.shape, Layout::plain(prediction.shape));
    op->backward(state, p, t, w, diff);
    const Array d = get(ctx(), diff);
    for (auto i = row; i < 2 * row; ++i) EXPECT_EQ(d[i], 0) << garbage;
  }
}

INSTANTIATE_TEST_SUITE_P(Loss, LossTest, ::testing::ValuesIn(on_every_context(loss_cases())), CaseName());

}  // namespace
}  // namespace keelson::testing
