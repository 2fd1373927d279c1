#include <gtest/gtest.h>

#include <cmath>

#include "engine/train/metrics/intersection_over_union.hpp"
#include "tests/mpi/world.hpp"
#include "tests/support/contexts.hpp"
#include "tests/train/metrics/confusion.hpp"
#include "tests/train/support.hpp"

namespace keelson::testing {
namespace {

class EvaluateTest : public MpiTest {};

/// 21 samples in batches of 2: at four ranks three steps, in the last of which ranks have 2, 2, 1 and 0 samples.
TEST_F(EvaluateTest, GivesTheSameBitsOnAnyNumberOfRanks) {
  const auto graph = small_network();
  const CubeDataset data(21);
  Parameters parameters(graph, context(network_contexts().back()), 1);
  const auto evaluate = [&](Communicator* c, std::vector<std::shared_ptr<Metric>> metrics) {
    EvaluatorOptions o;
    o.batch = 2;
    o.evaluation.metrics = std::move(metrics);
    return Evaluator(graph, parameters, data, c, o).run();
  };
  const std::vector<TargetUnit> units{{"a", 0.5, 2}, {"b", -0.25, 1}};
  const auto make = [&]() -> std::vector<std::shared_ptr<Metric>> {
    return {std::make_shared<MeanAbsoluteError>(units), std::make_shared<MeanRelativeError>(units),
            std::make_shared<Perplexity>(), std::make_shared<IntersectionOverUnion>()};
  };
  const auto metrics = make(), alone = make();
  const auto got = evaluate(&world(), metrics), want = evaluate(nullptr, alone);
  EXPECT_EQ(got.loss, want.loss);
  EXPECT_EQ(got.metric, want.metric);
  EXPECT_EQ(got.metric_values, want.metric_values);
  for (std::size_t m = 0; m < metrics.size(); ++m) {
    EXPECT_EQ(metrics[m]->value(), alone[m]->value()) << metrics[m]->name();
    EXPECT_EQ(metrics[m]->values(), alone[m]->values()) << metrics[m]->name();
  }
}

/// Seven images, of which each rank has others.
TEST_F(EvaluateTest, IntersectionsOverUnionsAreTheSameOnAnyNumberOfRanks) {
  const MetricSetup setup{.data = "images", .prediction = {1, 3, 2, 3}, .target = {"labels", {2, 3}, DType::s32}};
  const auto run = [&](Metric& metric, Communicator* c) {
    metric.reset(setup);
    for (std::int64_t i = c ? c->rank() : 0; i < 7; i += c ? c->size() : 1) {
      std::vector<float> logits(18);
      std::vector<std::int32_t> truth(6);
      for (std::size_t k = 0; k < 18; ++k)
        logits[k] = std::sin(static_cast<float>(i * 18 + static_cast<std::int64_t>(k)));
      for (std::size_t k = 0; k < 6; ++k)
        truth[k] = static_cast<std::int32_t>((i * i + 2 * static_cast<std::int64_t>(k)) % 3);
      metric.update({.count = 1, .indices = &i, .predictions = logits.data(), .targets = truth.data()});
    }
    metric.reduce(c);
  };
  MeanImageIoU images, images_alone;
  PooledIoU pooled, pooled_alone;
  run(images, &world());
  run(images_alone, nullptr);
  run(pooled, &world());
  run(pooled_alone, nullptr);
  EXPECT_EQ(images.value(), images_alone.value());
  EXPECT_EQ(images.values(), images_alone.values());
  EXPECT_EQ(pooled.value(), pooled_alone.value());
  EXPECT_EQ(pooled.values(), pooled_alone.values());
  EXPECT_EQ(images.confusion().union_of(1), pooled_alone.confusion().union_of(1));
}

TEST_F(EvaluateTest, PredictionsComeToRank0InTheDataSetsOrder) {
  const auto graph = small_network();
  const CubeDataset data(21);
  Parameters parameters(graph, context(network_contexts().back()), 1);
  for (const std::int64_t most : {0, 5}) {
    EvaluatorOptions o;
    o.batch = 2;
    const auto got = std::make_shared<Predictions>(most), want = std::make_shared<Predictions>(most);
    o.evaluation.metrics = {got};
    Evaluator(graph, parameters, data, &world(), o).run();
    o.evaluation.metrics = {want};
    Evaluator(graph, parameters, data, nullptr, o).run();
    EXPECT_EQ(want->value(), most == 0 ? 21 : 5);
    EXPECT_EQ(want->truth().size(), most == 0 ? 42u : 10u);
    EXPECT_EQ(got->predicted(), rank() == 0 ? want->predicted() : std::vector<float>());
    EXPECT_EQ(got->truth(), rank() == 0 ? want->truth() : std::vector<float>());
  }
}

}  // namespace
}  // namespace keelson::testing
