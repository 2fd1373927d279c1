#include "engine/ops/pixel_loss.hpp"

#include <cmath>
#include <limits>

#include "engine/base/philox.hpp"
#include "tests/ops/op_test.hpp"

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

/// The header's formula.
struct Reference {
  double loss = 0;
  Array diff;
};

Reference reference(const Array& x, const Array& target, const Array& weight, const ops::PixelLossDesc& d,
                    const ops::StepParams& now, double scale = 1) {
  const auto& p = d.params;
  const auto classes = x.shape[1], pixels = x.shape.elements() / x.shape[0] / classes;
  Reference r{0, Array(x.shape)};
  for (std::int64_t n = 0; n < x.shape[0]; ++n) {
    std::vector<double> counts(static_cast<std::size_t>(classes));
    const auto w = [&](std::int64_t c) {
      return p.class_weights.empty() ? 1.0 : static_cast<double>(p.class_weights[static_cast<std::size_t>(c)]);
    };
    for (std::int64_t q = 0; q < pixels; ++q)
      if (const double c = target[n * pixels + q]; c >= 0) ++counts[static_cast<std::size_t>(c)];
    double counted = 0;
    for (std::int64_t c = 0; c < classes; ++c)
      if (w(c) != 0) {
        const double all = counts[static_cast<std::size_t>(c)];
        counted += p.sampled_pixels > 0 ? std::min<double>(all, p.sampled_pixels) : all;
      }
    const double divisor = p.mean == PixelMean::none  ? 1
                           : p.mean == PixelMean::all ? static_cast<double>(pixels)
                                                      : counted;
    for (std::int64_t q = 0; q < pixels; ++q) {
      const auto c = static_cast<std::int64_t>(target[n * pixels + q]);
      if (weight[n] == 0 || c == -1) continue;
      if (p.sampled_pixels > 0) {
        const auto index = static_cast<std::uint64_t>((now.sample_offset + n) * pixels + q);
        const double u = philox::uniform({now.seed, d.stream, now.step}, index);
        if (!(u * counts[static_cast<std::size_t>(c)] < p.sampled_pixels)) continue;
      }
      const auto at = [&](std::int64_t j) { return (n * classes + j) * pixels + q; };
      double largest = x[at(0)], sum = 0, others = 0;
      for (std::int64_t j = 1; j < classes; ++j) largest = std::max(largest, x[at(j)]);
      for (std::int64_t j = 0; j < classes; ++j) {
        const double e = std::exp(x[at(j)] - largest);
        sum += e;
        if (j != c) others += e;
      }
      const double ce = std::log(sum) + largest - x[at(c)], wrong = others / sum, g = p.focal_gamma;
      const double all = now.inverse_samples * weight[n] * p.factor / divisor * w(c);
      const double focus = g > 0 ? std::pow(wrong, g) : 1;
      r.loss += all * focus * ce;
      // d/dx_j of (1 - q)^g * -log q, with dq/dx_j = q ([j = c] - softmax_j).
      const double slope = g > 0 ? focus + g * (1 - wrong) * std::pow(wrong, g - 1) * ce : 1;
      for (std::int64_t j = 0; j < classes; ++j)
        r.diff[at(j)] = all * slope * (j == c ? -wrong : std::exp(x[at(j)] - largest) / sum) * scale;
    }
  }
  return r;
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
    const auto want = reference(prediction, target, weight, desc, now);
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

TEST_P(PixelLossTest, TheGradientIsThatOfTheFormula) {
  const Array small = prediction;
  const auto f = [&](const Array& x) { return reference(x, target, weight, desc, now).loss; };
  const Tolerance by_differences{1e-5, 1e-7};
  EXPECT_TRUE(
      close(reference(small, target, weight, desc, now).diff, oracle::differences(f, small), c().name, by_differences));
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
  const auto want = reference(prediction, target, weight, desc, now, 1024);
  EXPECT_TRUE(close(get_f64(ctx(), loss), Array(Shape{1}, want.loss), c().name));
  check(diff, want.diff, c().name);
}

INSTANTIATE_TEST_SUITE_P(PixelLoss, PixelLossTest, ::testing::ValuesIn(on_every_context(pixel_loss_cases())),
                         CaseName());

}  // namespace
}  // namespace keelson::testing
