#include "engine/train/evaluator.hpp"

#include <gtest/gtest.h>

#include "tests/support/contexts.hpp"
#include "tests/train/support.hpp"

namespace keelson::testing {
namespace {

/// One sample makes `rows` predictions: the first half of x's features, the second, ...
Graph rows_network(std::int64_t rows) {
  Graph g;
  auto x = g.input("x", {2, 6, 6, 6});
  auto y = g.input("y", {2});
  auto h = flatten(average_pool(x, 3), ElementOrder::logical, 16 / rows);
  auto p = dense(h, 2, "out");
  g.set_output("prediction", p);
  mae(p, y);
  return g;
}

const std::vector<TargetUnit> two_targets{{"a"}, {"b"}};

TEST(Evaluator, DoesNotDependOnTheBatch) {
  const auto graph = small_network();
  const CubeDataset data(11);
  Parameters parameters(graph, context(network_contexts().back()), 1);
  EvaluatorOptions o;
  const auto predictions = std::make_shared<Predictions>();
  o.evaluation.metrics = {std::make_shared<MeanAbsoluteError>(two_targets), predictions};
  std::vector<Evaluation> all;
  std::vector<float> truth;
  for (std::int64_t batch : {1, 4, 16}) {
    o.batch = batch;
    all.push_back(Evaluator(graph, parameters, data, nullptr, o).run());
    if (truth.empty()) truth = predictions->truth();
    ASSERT_EQ(predictions->truth().size(), 22u);
    EXPECT_EQ(predictions->truth(), truth);
  }
  for (const auto& e : all) {
    EXPECT_EQ(e.samples, 11);
    EXPECT_NEAR(e.loss, all[0].loss, 1e-6 * all[0].loss);
    for (std::size_t t = 0; t < 2; ++t) EXPECT_NEAR(e.metric_values[t], all[0].metric_values[t], 1e-5);
    EXPECT_NEAR(e.metric, (e.metric_values[0] + e.metric_values[1]) / 2, 1e-12);
  }
}

TEST(Evaluator, WithoutMetricsTheLossJudges) {
  const auto graph = small_network();
  const CubeDataset data(6);
  Parameters parameters(graph, context(network_contexts().back()), 1);
  EvaluatorOptions o;
  o.evaluation.prediction = "there is none of this name";
  const auto e = Evaluator(graph, parameters, data, nullptr, o).run();
  EXPECT_GT(e.loss, 0);
  EXPECT_EQ(e.metric, e.loss);
  EXPECT_TRUE(e.metric_values.empty());
}

TEST(Evaluator, RefusesMetricsThatDoNotFit) {
  const auto graph = small_network();
  const CubeDataset data(6);
  Parameters parameters(graph, context(network_contexts().back()), 1);
  const auto refusal = [&](std::shared_ptr<Metric> metric, const std::string& target = "y") {
    EvaluatorOptions o;
    o.evaluation.metrics = {std::move(metric)};
    o.evaluation.target = target;
    return message_of<InputError>([&] { Evaluator(graph, parameters, data, nullptr, o); });
  };
  EXPECT_NE(refusal(std::make_shared<MeanAbsoluteError>(std::vector<TargetUnit>(3))).find("3 targets are named, but"),
            std::string::npos);
  EXPECT_NE(refusal(std::make_shared<MeanRelativeError>(std::vector<TargetUnit>())).find("no targets are named"),
            std::string::npos);
  EXPECT_NE(refusal(std::make_shared<MeanAbsoluteError>(), "z").find("has no field z"), std::string::npos);
  EXPECT_NE(refusal(std::make_shared<Predictions>(), "x").find("has 432 targets"), std::string::npos);
}

TEST(Evaluator, AveragesTheRowsOfASample) {
  const auto graph = rows_network(4);
  const CubeDataset data(5);
  auto& c = context(network_contexts().back());
  Parameters parameters(graph, c, 1);
  EvaluatorOptions o;
  o.batch = 5;
  const auto predictions = std::make_shared<Predictions>();
  o.evaluation.metrics = {predictions};
  Evaluator evaluator(graph, parameters, data, nullptr, o);
  evaluator.run();
  const auto rows = evaluator.executor().output("prediction");
  ASSERT_EQ(rows.shape(), (Shape{20, 2}));
  std::vector<float> host(40);
  c.read_plain(rows, host.data());
  for (std::size_t n = 0; n < 5; ++n)
    for (std::size_t t = 0; t < 2; ++t) {
      double mean = 0;
      for (std::size_t r = 0; r < 4; ++r) mean += host[(n * 4 + r) * 2 + t] / 4;
      EXPECT_NEAR(predictions->predicted()[n * 2 + t], mean, 1e-6);
    }
}

/// The same from the network's logits, in double.
TEST(Evaluator, KnowsThePerplexity) {
  const auto graph = token_network();
  const TokenDataset data(11);
  for (const auto& where : network_contexts()) {
    auto& c = context(where);
    Parameters parameters(graph, c, 1);
    EvaluatorOptions o;
    o.evaluation.metrics = {std::make_shared<Perplexity>()};
    o.unit = {"word", 5};
    o.evaluation.units = static_cast<double>(data.counted());
    o.batch = 11;
    Evaluator whole(graph, parameters, data, nullptr, o);
    const auto e = whole.run();
    const auto logits = whole.executor().output("logits");
    std::vector<float> z(static_cast<std::size_t>(logits.elements()));
    c.read_plain(logits, z.data());
    double sum = 0;
    for (std::int64_t n = 0; n < 11; ++n) {
      std::int32_t x[5], y[5];
      void* dst[] = {x, y};
      data.read(n, dst);
      for (std::int64_t t = 0; t < 5; ++t) {
        const float* row = &z[static_cast<std::size_t>((n * 5 + t) * 12)];
        double total = 0;
        for (int k = 0; k < 12; ++k) total += std::exp(static_cast<double>(row[k]));
        if (y[t] >= 0) sum += std::log(total) - row[y[t]];
      }
    }
    const double expected = sum / o.evaluation.units;
    EXPECT_EQ(o.evaluation.units, 53);
    EXPECT_NEAR(e.loss, expected, 1e-6) << where;
    EXPECT_NEAR(e.metric, std::exp(expected), 1e-5) << where;
    EXPECT_TRUE(e.metric_values.empty());
    o.batch = 4;  // the last batch has three
    EXPECT_NEAR(Evaluator(graph, parameters, data, nullptr, o).run().metric, e.metric, 1e-5) << where;
    o.evaluation.units = 0;
    EXPECT_NEAR(Evaluator(graph, parameters, data, nullptr, o).run().loss, sum / 55, 1e-6) << where;
  }
}

}  // namespace
}  // namespace keelson::testing
