#include "engine/ops/pixel_loss.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/ops/op_test.hpp"
#include "tests/oracle/pixel_loss.hpp"

namespace keelson::testing {
namespace {

using ops::PixelMean;

struct PixelLossCase {
  std::string name, about;
  Shape prediction;
  ops::PixelLossParams params;
  bool channels_last = false;
};

std::vector<PixelLossCase> pixel_loss_cases() {
  const std::vector<float> rare{0.0218f, 0.812f, 0.166f};
  return {{"plain", "mean over pixels", {3, 3, 7, 5}, {}},
          {"deepcam",
           "weighted classes, channels last",
           {2, 3, 12, 9},
           {.class_weights = {1.0017f, 2.6146f, 1.7164f}},
           true},
          {"sc18_sum", "weighted sum", {2, 3, 6, 11}, {.class_weights = rare, .mean = PixelMean::none, .factor = 0.1f}},
          {"counted",
           "a class that does not count",
           {3, 4, 9, 5},
           {.class_weights = {0, 1, 0.5f, 2}, .mean = PixelMean::counted}},
          {"focal", "gamma 2", {2, 3, 8, 8}, {.focal_gamma = 2}},
          {"focal_weighted",
           "gamma 1.5, channels last",
           {2, 5, 4, 7},
           {.class_weights = {1, 2, 3, 4, 5}, .factor = 3, .focal_gamma = 1.5f},
           true},
          {"sampled", "some pixels of each class", {3, 3, 16, 10}, {.mean = PixelMean::counted, .sampled_pixels = 11}},
          {"volume", "3-D, one class", {2, 1, 3, 4, 5}, {}},
          {"line", "1-D", {2, 6, 17}, {.class_weights = {1, 1, 2, 1, 1, 1}}},
          {"many", "more pixels than blocks", {1, 3, 61, 47}, {.class_weights = rare}}};
}

class PixelLossTest : public CaseTest<PixelLossCase> {
 protected:
  void SetUp() override {
    CaseTest::SetUp();
    const Shape& shape = c().prediction;
    layout = c().channels_last ? Layout::channels_last(shape) : Layout::plain(shape);
    desc = {c().params, TensorDesc{shape, DType::f32, layout}, true, 17};
    prediction = oracle::random_uniform(shape, "logits", -3, 3);
    target = oracle::random_integers(desc.target_desc().shape, "classes", 0, static_cast<int>(shape[1]) - 1);
    for (std::int64_t i = 1; i < target.elements(); i += 7) target[i] = -1;
    weight = Array({shape[0]}, 1.0);
    if (shape[0] > 2) weight[1] = 0;
  }

  Tensor put_weight() { return put(ctx(), weight, Layout::plain(weight.shape)); }

  void check_both(ops::PixelLoss& op, const std::string& what) {
    const auto want = oracle::pixel_loss(prediction, target, weight, desc, now);
    const auto step_params = put_step_params(ctx(), now);
    const auto p = put(ctx(), prediction, layout), t = put_classes(ctx(), target), w = put_weight();
    const auto loss = put_f64(ctx(), Array(Shape{1}, 3e33)), alone = put_f64(ctx(), Array(Shape{1}));
    const auto diff = destination(ctx(), prediction.shape, layout);
    run_forward(what, op, {step_params, p, t, w, loss, diff, {}, scratch_for(op)});
    EXPECT_TRUE(close(get_f64(ctx(), loss), Array(Shape{1}, want.loss), what));
    check(diff, want.diff, what + " diff_prediction");
    op.forward({step_params, p, t, w, alone, {}, {}, scratch_for(op)});
    EXPECT_EQ(raw_bytes(ctx(), alone), raw_bytes(ctx(), loss)) << what << " without a gradient";
  }

  Tensor scratch_for(const ops::PixelLoss& op) { return scratch(ctx(), op.scratch_bytes(ops::Verb::forward)); }

  ops::PixelLossDesc desc;
  Layout layout;
  Array prediction, target, weight;
  ops::StepParams now{.seed = 5, .step = 3, .sample_offset = 4, .inverse_samples = 0.125f};
};

TEST_P(PixelLossTest, MatchesTheFormula) {
  if (const auto op = make(desc)) check_both(*op, c().name + ": " + c().about);
}

/// Without weights, but for samples without weight; the loss has the same bits.
TEST_P(PixelLossTest, LossesOfSamples) {
  const auto op = make(desc);
  if (!op) return;
  weight[0] = 2.5;
  const auto step_params = put_step_params(ctx(), now);
  const auto p = put(ctx(), prediction, layout), t = put_classes(ctx(), target), w = put_weight();
  const auto loss = put_f64(ctx(), Array(Shape{1})), alone = put_f64(ctx(), Array(Shape{1}));
  const auto diff = destination(ctx(), prediction.shape, layout);
  const auto of_samples = destination(ctx(), weight.shape, Layout::plain(weight.shape));
  op->forward({step_params, p, t, w, alone, {}, {}, scratch_for(*op)});
  run_forward(c().name, *op, {step_params, p, t, w, loss, diff, {}, scratch_for(*op), {}, of_samples});
  EXPECT_EQ(raw_bytes(ctx(), alone), raw_bytes(ctx(), loss));
  Array want(weight.shape);
  ops::StepParams alike = now;
  alike.inverse_samples = 1;
  for (std::int64_t n = 0; n < weight.shape[0]; ++n) {
    Array one(weight.shape);
    one[n] = weight[n] > 0 ? 1 : 0;
    want[n] = oracle::pixel_loss(prediction, target, one, desc, alike).loss;
  }
  check(of_samples, want, c().name);
}

TEST_P(PixelLossTest, TheGradientIsThatOfTheFormula) {
  const Array small = prediction;
  const auto f = [&](const Array& x) { return oracle::pixel_loss(x, target, weight, desc, now).loss; };
  const Tolerance by_differences{1e-5, 1e-7};
  EXPECT_TRUE(close(oracle::pixel_loss(small, target, weight, desc, now).diff, oracle::differences(f, small), c().name,
                    by_differences));
}

/// The terms of two parts, and their gradients, which need the pixels of each class in both.
TEST_P(PixelLossTest, PartsAddUpToTheWhole) {
  const std::int64_t rows = c().prediction[2], cut = (rows + 1) / 2;
  const auto want = oracle::pixel_loss(prediction, target, weight, desc, now);
  Shape shapes[2] = {c().prediction, c().prediction}, targets[2] = {target.shape, target.shape};
  shapes[0][2] = targets[0][1] = cut;
  shapes[1][2] = targets[1][1] = rows - cut;
  const auto x = oracle::concat_backward(prediction, {shapes[0], shapes[1]}, 2),
             classes = oracle::concat_backward(target, {targets[0], targets[1]}, 1),
             diffs = oracle::concat_backward(want.diff, {shapes[0], shapes[1]}, 2);
  Array counts(desc.counts_desc().shape);
  for (const Array& part : classes) {
    const auto count = make(ops::PixelCountsDesc{TensorDesc::plain(part.shape, DType::s32), c().prediction[1]});
    if (!count) return;
    const auto found = put_f64(ctx(), counts);
    run_forward(c().name, *count,
                {put_classes(ctx(), part), found, scratch(ctx(), count->scratch_bytes(ops::Verb::forward))});
    for (std::int64_t i = 0; i < counts.elements(); ++i) counts[i] += get_f64(ctx(), found)[i];
  }
  for (std::int64_t i = 0; i < counts.elements(); ++i)
    ASSERT_EQ(counts[i],
              std::count(target.data.begin() + i / c().prediction[1] * target.elements() / target.shape[0],
                         target.data.begin() + (i / c().prediction[1] + 1) * target.elements() / target.shape[0],
                         static_cast<double>(i % c().prediction[1])));
  double sum = 0;
  for (std::size_t part = 0; part < 2; ++part) {
    const Layout at = c().channels_last ? Layout::channels_last(shapes[part]) : Layout::plain(shapes[part]);
    ops::PixelLossDesc of_part = desc;
    of_part.prediction = {shapes[part], DType::f32, at};
    of_part.part = {rows, part == 0 ? 0 : cut};
    const auto op = make(of_part);
    if (!op) return;
    const auto loss = put_f64(ctx(), Array(Shape{1}));
    const auto diff = destination(ctx(), shapes[part], at);
    op->forward({put_step_params(ctx(), now),
                 put(ctx(), x[part], at),
                 put_classes(ctx(), classes[part]),
                 put_weight(),
                 loss,
                 diff,
                 {},
                 scratch_for(*op),
                 put_f64(ctx(), counts)});
    check(diff, diffs[part], c().name);
    sum += get_f64(ctx(), loss)[0];
  }
  EXPECT_TRUE(close(Array(Shape{1}, sum), Array(Shape{1}, want.loss), c().name));
}

TEST_P(PixelLossTest, SureAndWrongNetworksStayFinite) {
  const auto op = make(desc);
  if (!op) return;
  const Array small = prediction;
  for (const double factor : {30.0, 1e30}) {
    for (std::int64_t i = 0; i < small.elements(); ++i) prediction[i] = static_cast<float>(small[i] * factor);
    check_both(*op, fmt::format("{} x {}", c().name, factor));
  }
}

TEST_P(PixelLossTest, AClassThatIsNotThereMakesTheLossNan) {
  const auto op = make(desc);
  if (!op) return;
  const auto room = scratch_for(*op);
  const Array good = target;
  for (const double wrong : {static_cast<double>(c().prediction[1]), -2.0, 2147483647.0}) {
    target = good;
    target[0] = wrong;
    const auto loss = put_f64(ctx(), Array(Shape{1}));
    op->forward({put_step_params(ctx(), now),
                 put(ctx(), prediction, layout),
                 put_classes(ctx(), target),
                 put_weight(),
                 loss,
                 {},
                 {},
                 room});
    EXPECT_TRUE(std::isnan(get_f64(ctx(), loss)[0])) << wrong;
  }
}

TEST_P(PixelLossTest, OnlyTheGradientIsScaled) {
  const auto op = make(desc);
  if (!op) return;
  const auto diff = destination(ctx(), prediction.shape, layout);
  const auto loss = put_f64(ctx(), Array(Shape{1}));
  const ops::LossScale scale{.scale = 1024};
  op->forward({put_step_params(ctx(), now), put(ctx(), prediction, layout), put_classes(ctx(), target), put_weight(),
               loss, diff, put_loss_scale(ctx(), scale), scratch_for(*op)});
  const auto want = oracle::pixel_loss(prediction, target, weight, desc, now, 1024);
  EXPECT_TRUE(close(get_f64(ctx(), loss), Array(Shape{1}, want.loss), c().name));
  check(diff, want.diff, c().name);
}

INSTANTIATE_TEST_SUITE_P(PixelLoss, PixelLossTest, ::testing::ValuesIn(on_every_context(pixel_loss_cases())),
                         CaseName());

}  // namespace
}  // namespace keelson::testing
