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

TEST(Evaluator, DoesNotDependOnTheBatch) {
  const auto graph = small_network();
  const CubeDataset data(11);
  Parameters parameters(graph, context(network_contexts().back()), 1);
  EvaluatorOptions o;
  o.metric.targets = {{"a"}, {"b"}};
  std::vector<Evaluation> all;
  for (std::int64_t batch : {1, 4, 16}) {
    o.batch = batch;
    all.push_back(Evaluator(graph, parameters, data, nullptr, o).run());
  }
  for (const auto& e : all) {
    EXPECT_EQ(e.samples, 11);
    EXPECT_EQ(e.truth, all[0].truth);
    EXPECT_NEAR(e.loss, all[0].loss, 1e-6 * all[0].loss);
    for (std::size_t t = 0; t < 2; ++t) EXPECT_NEAR(e.errors[t], all[0].errors[t], 1e-5);
    EXPECT_NEAR(e.metric, (e.errors[0] + e.errors[1]) / 2, 1e-12);
  }
}

TEST(Evaluator, AveragesTheRowsOfASample) {
  const auto graph = rows_network(4);
  const CubeDataset data(5);
  auto& c = context(network_contexts().back());
  Parameters parameters(graph, c, 1);
  EvaluatorOptions o;
  o.batch = 5;
  o.metric.targets = {{"a"}, {"b"}};
  Evaluator evaluator(graph, parameters, data, nullptr, o);
  const auto e = evaluator.run();
  const auto rows = evaluator.plan().output("prediction");
  ASSERT_EQ(rows.shape(), (Shape{20, 2}));
  std::vector<float> host(40);
  c.read_plain(rows, host.data());
  for (std::size_t n = 0; n < 5; ++n)
    for (std::size_t t = 0; t < 2; ++t) {
      double mean = 0;
      for (std::size_t r = 0; r < 4; ++r) mean += host[(n * 4 + r) * 2 + t] / 4;
      EXPECT_NEAR(e.predicted[n * 2 + t], mean, 1e-6);
    }
}

TEST(Evaluator, KnowsRelativeErrorsAndTheBaseline) {
  MetricSpec m;
  m.kind = MetricSpec::Kind::relative;
  m.targets = {{"a", 0.5, 2}, {"b", -0.25, 1}};
  EXPECT_NEAR(m.error(0, 1.0, 0.0), 0.5 / 2, 1e-12);
  EXPECT_NEAR(m.error(1, 1.0, 2.0), 0.25 / 0.5, 1e-12);
  Evaluation e;
  e.samples = 2;
  e.errors = {0, 0};
  e.truth = {1, 10, 3, 20};
  const MetricSpec plain{.targets = {{"a"}, {"b"}}};
  EXPECT_EQ(e.truth_mean(), (std::vector<double>{2, 15}));
  EXPECT_EQ(e.baseline(plain, {2, 10}), (std::vector<double>{1, 5}));
}

TEST(MetricSpec, TellsPeople) {
  const MetricSpec error, perplexity{.kind = MetricSpec::Kind::perplexity};
  EXPECT_EQ(error.name() + " " + error.text(0.12345), "MAE 0.1235");
  EXPECT_EQ(perplexity.name() + " " + perplexity.text(std::exp(4.815)), "perplexity 123.3");
  EXPECT_EQ(perplexity.text(82.0), "82.00");
  EXPECT_EQ(perplexity.text(999.96), "1000");
  EXPECT_EQ(perplexity.text(10000.4), "10000");
  EXPECT_DOUBLE_EQ(perplexity.of_loss(0), 1);
}

/// The same from the network's logits, in double.
TEST(Evaluator, KnowsThePerplexity) {
  const auto graph = token_network();
  const TokenDataset data(11);
  for (const auto& where : network_contexts()) {
    auto& c = context(where);
    Parameters parameters(graph, c, 1);
    EvaluatorOptions o;
    o.metric.kind = MetricSpec::Kind::perplexity;
    o.unit = {"word", 5};
    o.units = static_cast<double>(data.counted());
    o.batch = 11;
    Evaluator whole(graph, parameters, data, nullptr, o);
    const auto e = whole.run();
    const auto logits = whole.plan().output("logits");
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
    const double expected = sum / o.units;
    EXPECT_EQ(o.units, 53);
    EXPECT_NEAR(e.loss, expected, 1e-6) << where;
    EXPECT_NEAR(e.metric, std::exp(expected), 1e-5) << where;
    EXPECT_TRUE(e.errors.empty() && e.predicted.empty() && e.truth.empty());
    EXPECT_TRUE(e.baseline(o.metric, {}).empty());
    o.batch = 4;  // the last batch has three
    EXPECT_NEAR(Evaluator(graph, parameters, data, nullptr, o).run().metric, e.metric, 1e-5) << where;
    o.units = 0;
    EXPECT_NEAR(Evaluator(graph, parameters, data, nullptr, o).run().loss, sum / 55, 1e-6) << where;
  }
}

}  // namespace
}  // namespace keelson::testing
