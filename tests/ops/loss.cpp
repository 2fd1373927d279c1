#include "engine/ops/loss.hpp"

#include <cmath>
#include <limits>

#include "tests/ops/op_test.hpp"

namespace keelson::testing {
namespace {

using ops::LossKind;

struct LossCase {
  std::string name, about;
  ops::LossParams params;
  std::int64_t samples, features, rows_per_sample = 1;
  bool class_per_row = false;
};

std::vector<LossCase> loss_cases() {
  std::vector<LossCase> cases;
  const std::pair<std::string, ops::LossParams> kinds[] = {{"mse", {LossKind::mse, 1}},
                                                           {"mae", {LossKind::mae, 1}},
                                                           {"huber", {LossKind::huber, 0.75f}},
                                                           {"gaussian_nll", {LossKind::gaussian_nll}},
                                                           {"binary_cross_entropy", {LossKind::binary_cross_entropy}},
                                                           {"mean", {LossKind::mean}},
                                                           {"smooth", {LossKind::cross_entropy, 1, false, 0.125f}},
                                                           {"cross_entropy", {LossKind::cross_entropy, 1}}};
  for (const auto& [name, params] : kinds) {
    cases.push_back({name, "one sample, one feature", params, 1, 1});
    cases.push_back({name + "_cosmoflow", "4 parameters", params, 5, 4});
    cases.push_back({name + "_rows", "64 rows share a target", params, 2, 3, 64});
    cases.push_back({name + "_wide", "many features", params, 3, 1001});
    ops::LossParams summed = params;
    summed.sum_rows = true;
    cases.push_back({name + "_sum_rows", "rows count by their sum", summed, 2, 3, 5});
  }
  const ops::LossParams mean{LossKind::cross_entropy, 1}, sum{LossKind::cross_entropy, 1, true};
  cases.push_back({"cross_entropy_row_classes", "each row has its class", mean, 4, 7, 6, true});
  cases.push_back({"cross_entropy_words", "a language model with an odd vocabulary", sum, 3, 10'001, 5, true});
  cases.push_back({"cross_entropy_many_rows", "more rows than blocks", sum, 37, 5, 35, true});
  cases.push_back({"cross_entropy_a_row_each", "one row per sample, and its class", sum, 3, 33, 1, true});
  return cases;
}

class LossTest : public CaseTest<LossCase> {
 protected:
  void SetUp() override {
    CaseTest::SetUp();
    const Shape rows{c().samples * c().rows_per_sample, c().features * c().params.values_per_target()};
    prediction = oracle::random_uniform(rows, "prediction", -2, 2);
    if (c().params.kind == LossKind::cross_entropy) {
      const Shape shape = c().class_per_row ? Shape{c().samples, c().rows_per_sample} : Shape{c().samples};
      target = oracle::random_integers(shape, "class", 0, static_cast<int>(c().features) - 1);
      for (std::int64_t i = 1; i < target.elements(); i += 3) target[i] = -1;  // does not count
    } else {
      const double least = c().params.kind == LossKind::binary_cross_entropy ? 0 : -2;
      target = oracle::random_uniform({c().samples, c().features}, "target", least, least + (least == 0 ? 1 : 4));
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

  /// Loss and gradient; without the gradient, and with it in the prediction's place, the same bits.
  void check_both(ops::Loss& op, const std::string& what) {
    const ops::StepParams now{.inverse_samples = 0.125f};
    const auto step_params = put_step_params(ctx(), now);
    const auto p = put(ctx(), prediction, Layout::plain(prediction.shape)),
               w = put(ctx(), weight, Layout::plain(weight.shape));
    const auto t = put_target(), loss = put_f64(ctx(), Array(Shape{1}, 3e33)), alone = put_f64(ctx(), Array(Shape{1}));
    const auto diff = destination(ctx(), prediction.shape, Layout::plain(prediction.shape));
    run_forward(what, op, {step_params, p, t, w, loss, diff});
    const Array want(Shape{1}, oracle::loss_forward(prediction, target, weight, c().params, now, c().rows_per_sample));
    EXPECT_TRUE(close(get_f64(ctx(), loss), want, what));
    check(diff, oracle::loss_backward(prediction, target, weight, c().params, now, c().rows_per_sample),
          what + " diff_prediction");
    op.forward({step_params, p, t, w, alone, {}});
    EXPECT_EQ(raw_bytes(ctx(), alone), raw_bytes(ctx(), loss)) << what << " without a gradient";
    op.forward({step_params, p, t, w, alone, p});
    EXPECT_EQ(raw_bytes(ctx(), alone), raw_bytes(ctx(), loss)) << what << " in place";
    EXPECT_EQ(raw_bytes(ctx(), p), raw_bytes(ctx(), diff)) << what << " in place";
  }

  Array prediction, target, weight;
};

TEST_P(LossTest, MatchesOracle) {
  const auto op = make_loss();
  if (!op) return;
  check_both(*op, c().name + ": " + c().about);
  EXPECT_EQ(op->cost(ops::Verb::forward).bytes, 2 * sizeof(float) * static_cast<double>(prediction.elements()));
}

/// Without weights, but for samples without weight; the loss has the same bits.
TEST_P(LossTest, LossesOfSamples) {
  const auto op = make_loss();
  if (!op) return;
  weight[0] = 2.5;
  const ops::StepParams now{.inverse_samples = 0.125f};
  const auto step_params = put_step_params(ctx(), now);
  const auto p = put(ctx(), prediction, Layout::plain(prediction.shape)),
             w = put(ctx(), weight, Layout::plain(weight.shape)), t = put_target();
  const auto loss = put_f64(ctx(), Array(Shape{1})), alone = put_f64(ctx(), Array(Shape{1}));
  const auto diff = destination(ctx(), prediction.shape, Layout::plain(prediction.shape));
  const auto of_samples = destination(ctx(), weight.shape, Layout::plain(weight.shape));
  op->forward({step_params, p, t, w, alone, {}});
  run_forward(c().name, *op, {step_params, p, t, w, loss, diff, {}, {}, of_samples});
  EXPECT_EQ(raw_bytes(ctx(), alone), raw_bytes(ctx(), loss));
  Array want(weight.shape);
  for (std::int64_t n = 0; n < c().samples; ++n) {
    Array one(weight.shape);
    one[n] = weight[n] > 0 ? 1 : 0;
    want[n] = oracle::loss_forward(prediction, target, one, c().params, {.inverse_samples = 1}, c().rows_per_sample);
  }
  check(of_samples, want, c().name);
}

/// The total and the gradient have the importance as a factor, and samples without weight have no part whatever it is.
TEST_P(LossTest, ImportanceIsAFactorOfSamples) {
  const auto op = make_loss();
  if (!op) return;
  const ops::StepParams now{.inverse_samples = 0.125f};
  Array importance = oracle::random_uniform(weight.shape, "importance", 0, 3), both = weight;
  for (std::int64_t n = 0; n < c().samples; ++n) {
    both[n] = weight[n] * importance[n];
    if (weight[n] == 0) importance[n] = std::numeric_limits<double>::quiet_NaN();
  }
  const auto p = put(ctx(), prediction, Layout::plain(prediction.shape)),
             w = put(ctx(), weight, Layout::plain(weight.shape)),
             by = put(ctx(), importance, Layout::plain(weight.shape)), t = put_target();
  const auto loss = put_f64(ctx(), Array(Shape{1}));
  const auto diff = destination(ctx(), prediction.shape, Layout::plain(prediction.shape));
  run_forward(c().name, *op, {put_step_params(ctx(), now), p, t, w, loss, diff, {}, {}, {}, by});
  const Array want(Shape{1}, oracle::loss_forward(prediction, target, both, c().params, now, c().rows_per_sample));
  EXPECT_TRUE(close(get_f64(ctx(), loss), want, c().name));
  check(diff, oracle::loss_backward(prediction, target, both, c().params, now, c().rows_per_sample), c().name);
}

TEST_P(LossTest, OnlyTheGradientIsScaled) {
  const auto op = make_loss();
  if (!op) return;
  const auto p = put(ctx(), prediction, Layout::plain(prediction.shape)),
             w = put(ctx(), weight, Layout::plain(weight.shape));
  const auto diff = destination(ctx(), prediction.shape, Layout::plain(prediction.shape));
  const auto t = put_target(), loss = put_f64(ctx(), Array(Shape{1})), plain = put_f64(ctx(), Array(Shape{1}));
  op->forward({put_step_params(ctx(), {.inverse_samples = 0.5f}), p, t, w, plain, {}});
  const ops::StepParams now{.inverse_samples = 0.5f};
  const ops::LossScale scale{.scale = 1024, .unscale = 1.0f / 512};
  op->forward({put_step_params(ctx(), now), p, t, w, loss, diff, put_loss_scale(ctx(), scale)});
  EXPECT_EQ(raw_bytes(ctx(), loss), raw_bytes(ctx(), plain));
  check(diff, oracle::loss_backward(prediction, target, weight, c().params, now, c().rows_per_sample, scale), c().name);
}

TEST_P(LossTest, LargePredictionsStayFinite) {
  const auto op = make_loss();
  if (!op) return;
  const Array small = prediction;
  for (const float factor : {300.0f, 1e30f}) {
    for (std::int64_t i = 0; i < small.elements(); ++i) prediction[i] = static_cast<float>(small[i]) * factor;
    EXPECT_TRUE(std::isfinite(
        oracle::loss_forward(prediction, target, weight, c().params, {.inverse_samples = 1}, c().rows_per_sample)));
    check_both(*op, fmt::format("{} x {}", c().name, factor));
  }
}

TEST_P(LossTest, MaskedClassesHaveNoPart) {
  if (c().params.kind != LossKind::cross_entropy || c().params.label_smoothing > 0) return;  // infinite with it
  const auto op = make_loss();
  if (!op) return;
  for (std::int64_t r = 0; r < prediction.shape[0]; ++r) {
    const auto wanted = target[c().class_per_row ? r : r / c().rows_per_sample];
    for (std::int64_t f = 0; f < c().features; ++f)
      if (f % 64 >= 8 && static_cast<double>(f) != wanted)
        prediction[r * c().features + f] = -std::numeric_limits<double>::infinity();
  }
  check_both(*op, c().name + " with classes at -infinity");
}

TEST_P(LossTest, AClassThatIsNotThereMakesTheLossNan) {
  if (c().params.kind != LossKind::cross_entropy) return;
  const auto op = make_loss();
  if (!op) return;
  const Array good = target;
  for (const double wrong : {static_cast<double>(c().features), -2.0, -2147483648.0, 2147483647.0}) {
    target = good;
    target[0] = wrong;
    const auto p = put(ctx(), prediction, Layout::plain(prediction.shape)),
               w = put(ctx(), weight, Layout::plain(weight.shape)), loss = put_f64(ctx(), Array(Shape{1}));
    for (const auto& diff : {Tensor(), p}) {
      op->forward({put_step_params(ctx(), {.inverse_samples = 1}), p, put_target(), w, loss, diff});
      EXPECT_TRUE(std::isnan(get_f64(ctx(), loss)[0])) << wrong;
    }
  }
}

TEST_P(LossTest, NanPredictionGivesNanLoss) {
  prediction[c().features - 1] = std::numeric_limits<double>::quiet_NaN();
  if (const auto op = make_loss()) check_both(*op, c().name + " with a NaN");
}

TEST_P(LossTest, PaddedSamplesCountForNothing) {
  if (c().samples < 2) return;
  const auto op = make_loss();
  if (!op) return;
  const auto step_params = put_step_params(ctx(), {.inverse_samples = 0.5f});
  const auto w = put(ctx(), weight, Layout::plain(weight.shape)), t = put_target();
  const auto loss_of = [&] {
    const auto p = put(ctx(), prediction, Layout::plain(prediction.shape)), loss = put_f64(ctx(), Array(Shape{1}));
    op->forward({step_params, p, t, w, loss, {}});
    return get_f64(ctx(), loss)[0];
  };
  const double before = loss_of();
  const auto row = c().rows_per_sample * prediction.shape[1];
  for (const double garbage : {1.0, std::numeric_limits<double>::quiet_NaN()}) {
    for (auto i = row; i < 2 * row; ++i) prediction[i] = garbage;
    EXPECT_EQ(loss_of(), before) << garbage;
    const auto p = put(ctx(), prediction, Layout::plain(prediction.shape));
    const auto diff = destination(ctx(), prediction.shape, Layout::plain(prediction.shape));
    op->forward({step_params, p, t, w, put_f64(ctx(), Array(Shape{1})), diff});
    const Array d = get(ctx(), diff);
    for (auto i = row; i < 2 * row; ++i) EXPECT_EQ(d[i], 0) << garbage;
  }
}

/// Columns [first, first + count) of a matrix.
Array columns_of(const Array& a, std::int64_t first, std::int64_t count) {
  Array part({a.shape[0], count});
  for (std::int64_t r = 0; r < a.shape[0]; ++r)
    for (std::int64_t f = 0; f < count; ++f) part[r * count + f] = a[r * a.shape[1] + first + f];
  return part;
}

/// Losses and gradients of parts of the classes are those of all classes, also with a part of a single class, and with
/// classes at -infinity.
TEST_P(LossTest, PartsOfClassesAddUp) {
  const std::int64_t all = c().features, rows = prediction.shape[0];
  if (c().params.kind != LossKind::cross_entropy || all < 3) return;
  const std::vector<std::int64_t> bounds{0, 1, (all + 1) / 2, all};
  const int parts = 3;
  const ops::StepParams now{.inverse_samples = 0.125f};
  const auto step_params = put_step_params(ctx(), now);
  const auto w = put(ctx(), weight, Layout::plain(weight.shape)), t = put_target();
  for (const bool masked : {false, true}) {
    if (masked && (all < 4 || c().params.label_smoothing > 0)) return;  // one class would be left, whose gradient is 0
    for (std::int64_t r = 0; masked && r < rows; ++r)
      for (std::int64_t f = 0; f < (all + 1) / 2; ++f)
        if (static_cast<double>(f) != target[c().class_per_row ? r : r / c().rows_per_sample])
          prediction[r * all + f] = -std::numeric_limits<double>::infinity();
    Array sums({rows, 2 * parts});
    std::vector<Tensor> predictions;
    for (int p = 0; p < parts; ++p) {
      const Array part = columns_of(prediction, bounds[p], bounds[p + 1] - bounds[p]);
      predictions.push_back(put(ctx(), part, Layout::plain(part.shape)));
      const auto op = make(ops::ClassSumsDesc{TensorDesc::plain(part.shape)});
      if (!op) return;
      const auto own = destination(ctx(), {rows, 2}, Layout::plain({rows, 2}));
      run_forward("sums", *op, {predictions.back(), own});
      const Array found = get(ctx(), own);
      for (std::int64_t r = 0; r < rows; ++r)
        for (int i = 0; i < 2; ++i) sums[r * 2 * parts + 2 * p + i] = found[2 * r + i];
    }
    const auto all_sums = put(ctx(), sums, Layout::plain(sums.shape));
    double total = 0;
    Array gradient(prediction.shape);
    for (int p = 0; p < parts; ++p) {
      const Tensor& x = predictions[static_cast<std::size_t>(p)];
      const auto op = make(ops::LossDesc{c().params,
                                         TensorDesc::plain(x.shape()),
                                         TensorDesc::plain(target.shape, DType::s32),
                                         c().rows_per_sample,
                                         {bounds[p], all, parts}});
      const auto loss = put_f64(ctx(), Array(Shape{1}, 3e33)), alone = put_f64(ctx(), Array(Shape{1}));
      const auto diff = destination(ctx(), x.shape(), Layout::plain(x.shape()));
      run_forward("part", *op, {step_params, x, t, w, loss, diff, {}, all_sums});
      const Array columns = get(ctx(), diff);
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t f = bounds[p]; f < bounds[p + 1]; ++f)
          gradient[r * all + f] = columns[r * columns.shape[1] + f - bounds[p]];
      op->forward({step_params, x, t, w, alone, {}, {}, all_sums});
      EXPECT_EQ(raw_bytes(ctx(), alone), raw_bytes(ctx(), loss)) << "part " << p << " without a gradient";
      total += get_f64(ctx(), loss)[0];
    }
    check(put(ctx(), gradient, Layout::plain(gradient.shape)),
          oracle::loss_backward(prediction, target, weight, c().params, now, c().rows_per_sample), "gradient");
    const double whole = oracle::loss_forward(prediction, target, weight, c().params, now, c().rows_per_sample);
    EXPECT_NEAR(total, whole, 1e-6 * std::abs(whole));
  }
}

TEST_P(LossTest, AClassOfNoPartMakesTheLossNan) {
  if (c().params.kind != LossKind::cross_entropy) return;
  const std::int64_t rows = prediction.shape[0], all = 2 * c().features;
  const auto op = make(ops::LossDesc{c().params,
                                     TensorDesc::plain(prediction.shape),
                                     TensorDesc::plain(target.shape, DType::s32),
                                     c().rows_per_sample,
                                     {c().features, all, 2}});
  if (!op) return;
  target[0] = static_cast<double>(all);
  const auto loss = put_f64(ctx(), Array(Shape{1}));
  op->forward({put_step_params(ctx(), {.inverse_samples = 1}),
               put(ctx(), prediction, Layout::plain(prediction.shape)),
               put_target(),
               put(ctx(), weight, Layout::plain(weight.shape)),
               loss,
               {},
               {},
               put(ctx(), Array({rows, 4}, 1.0), Layout::plain({rows, 4}))});
  EXPECT_TRUE(std::isnan(get_f64(ctx(), loss)[0]));
}

INSTANTIATE_TEST_SUITE_P(Loss, LossTest, ::testing::ValuesIn(on_every_context(loss_cases())), CaseName());

}  // namespace
}  // namespace keelson::testing
