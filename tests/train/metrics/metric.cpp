#include "engine/train/metrics/metric.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/contexts.hpp"
#include "tests/train/metrics/confusion.hpp"
#include "tests/train/support.hpp"

namespace keelson::testing {
namespace {

/// Three samples of two targets.
struct Samples {
  std::vector<float> predictions{0, 1, 2, 3, 4, 5}, truth{1, 1, 4, 2, 4, -5};
  std::vector<std::int64_t> indices{0, 1, 2};
  MetricSetup setup{.data = "three samples", .samples = 3, .units = 3, .prediction = {1, 2}, .target = {"y", {2}}};
  MetricBatch part(std::int64_t first, std::int64_t count) const {
    return {.count = count,
            .indices = &indices[static_cast<std::size_t>(first)],
            .predictions = &predictions[static_cast<std::size_t>(2 * first)],
            .targets = &truth[static_cast<std::size_t>(2 * first)]};
  }
  /// In two batches.
  std::vector<double> values(Metric& metric) const {
    metric.reset(setup);
    metric.update(part(0, 2));
    metric.update(part(2, 1));
    metric.reduce(nullptr);
    return metric.values();
  }
};

TEST(Metric, MeanErrorsPerTarget) {
  const Samples samples;
  MeanAbsoluteError absolute;
  EXPECT_EQ(samples.values(absolute), (std::vector<double>{1, 11.0 / 3}));
  EXPECT_DOUBLE_EQ(absolute.value(), 14.0 / 6);
  EXPECT_EQ(samples.values(absolute), (std::vector<double>{1, 11.0 / 3})) << "reset() forgets";
  // In the user's units: predicted 2, 3, 4 and 0.75, 0.25, -0.25; true 2.5, 4, 4 and 0.75, 0.5, 2.25.
  MeanRelativeError relative({{"a", 0.5, 2}, {"b", -0.25, 1}});
  const auto r = samples.values(relative);
  EXPECT_NEAR(r[0], (0.5 / 2.5 + 1.0 / 4) / 3, 1e-12);
  EXPECT_NEAR(r[1], (0.25 / 0.5 + 2.5 / 2.25) / 3, 1e-12);
}

TEST(Metric, PredictionsOfEveryKthSample) {
  const Samples samples;
  Predictions all, some(2);
  samples.values(all);
  EXPECT_EQ(all.predicted(), samples.predictions);
  EXPECT_EQ(all.truth(), samples.truth);
  samples.values(some);
  EXPECT_EQ(some.predicted(), (std::vector<float>{0, 1, 4, 5}));
  EXPECT_EQ(some.truth(), (std::vector<float>{1, 1, 4, -5}));
}

TEST(Metric, PredictionsOfClassesAreTheLogits) {
  const std::vector<float> logits{0, 1, 2, 3, 4, 5};
  const std::vector<std::int32_t> classes{2, 0};
  const std::vector<std::int64_t> indices{1, 0};
  Predictions metric;
  metric.reset(
      {.data = "two samples", .samples = 2, .units = 2, .prediction = {1, 3}, .target = {"y", {}, DType::s32}});
  metric.update({.count = 2, .indices = indices.data(), .predictions = logits.data(), .targets = classes.data()});
  metric.reduce(nullptr);
  EXPECT_TRUE(metric.of_classes());
  EXPECT_EQ(metric.predicted(), (std::vector<float>{3, 4, 5, 0, 1, 2}));
  EXPECT_EQ(metric.truth(), (std::vector<float>{0, 2}));
}

/// A metric of classes, made of whole numbers, where more is better.
TEST(Metric, IntersectionOverUnion) {
  const Samples samples;
  IntersectionOverUnion iou;
  // Positive or not: the first target is predicted - + +, and + + + is true; the second + + +, and + + - is true.
  EXPECT_EQ(samples.values(iou), (std::vector<double>{0, 4.0 / 6}));
  EXPECT_TRUE(iou.better(0.5, 0.25));
  EXPECT_TRUE(MeanAbsoluteError().better(0.25, 0.5));
}

TEST(Metric, TellsPeople) {
  const MeanAbsoluteError error;
  const Perplexity perplexity;
  EXPECT_EQ(error.name() + " " + error.text(0.12345), "MAE 0.1235");
  EXPECT_EQ(perplexity.name() + " " + perplexity.text(std::exp(4.815)), "perplexity 123.3");
  EXPECT_EQ(perplexity.text(82.0), "82.00");
  EXPECT_EQ(perplexity.text(999.96), "1000");
  EXPECT_EQ(perplexity.text(10000.4), "10000");
  EXPECT_DOUBLE_EQ(*perplexity.of_loss(0), 1);
  EXPECT_FALSE(error.of_loss(0));
}

/// The best of a run is the one whose metric is highest, where the metric says so.
TEST(Metric, HigherMayBeBetter) {
  auto o = small_options();
  o.evaluation.metrics = {std::make_shared<IntersectionOverUnion>()};
  o.epochs = 6;
  const auto graph = small_network(0);
  const CubeDataset training(60), validation(32, 6, 99);
  const auto run = [&](const TrainerOptions& options, Recorder& recorder) {
    Parameters parameters(graph, context(network_contexts().back()), 1);
    return Trainer(graph, parameters, training, &validation, nullptr, options).run({&recorder});
  };
  Recorder recorder;
  const auto whole = run(o, recorder);
  const auto best = *std::max_element(recorder.metrics.begin(), recorder.metrics.end());
  EXPECT_NE(recorder.metrics.front(), best) << "this run should learn";
  EXPECT_EQ(whole.state.best_metric, best);
  o.target = (recorder.metrics.front() + best) / 2;
  Recorder stopped;
  EXPECT_EQ(run(o, stopped).reason, StopReason::target_reached);
  EXPECT_GE(stopped.metrics.back(), o.target);
}

}  // namespace
}  // namespace keelson::testing
