#include "nets/cosmoflow/cosmoflow.hpp"

#include <gtest/gtest.h>

#include "engine/layers/layers.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/networks.hpp"

namespace keelson::testing {
namespace {

TEST(CosmoFlow, HasThePublishedNumberOfParameters) {
  EXPECT_EQ(nets::cosmoflow_mlperf().parameter_count(), 8907556);
  EXPECT_EQ(nets::cosmoflow_mlperf({.size = 256}).parameter_count(), 15985956) << "one more block of 512 filters";
  EXPECT_EQ(nets::cosmoflow_mlperf({.size = 512}).parameter_count(), 23064356);
  EXPECT_EQ(nets::cosmoflow_paper().parameter_count(), 7041443);
}

TEST(CosmoFlow, TakesEverySizeThatFitsAndRefusesTheOthers) {
  for (std::int64_t size : {32, 48, 64, 128})
    EXPECT_EQ(nets::cosmoflow_mlperf({.size = size}).nodes()[0].shape.shape[2], size);
  EXPECT_THROW(nets::cosmoflow_mlperf({.size = 31}), InputError);
  for (std::int64_t size : {80, 96, 112, 128})
    EXPECT_EQ(nets::cosmoflow_paper({.size = size, .channels = 1, .targets = 3}).parameter_count(), 7041443);
  EXPECT_THROW(nets::cosmoflow_paper({.size = 64, .channels = 1, .targets = 3}), InputError);
  try {
    nets::cosmoflow_paper({.size = 120, .channels = 1, .targets = 3});
    ADD_FAILURE() << "size 120 was accepted";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("try 119"), std::string::npos) << e.what();
  }
  EXPECT_NO_THROW(nets::cosmoflow_paper({.size = 119, .channels = 1, .targets = 3}));
}

TEST(CosmoFlow, MakesOnePredictionRowPerSampleOr64) {
  EXPECT_EQ(nets::cosmoflow_mlperf().nodes().back().layer->kind(), "mse");
  const Graph uncertain = nets::cosmoflow_mlperf({.uncertainty = true});
  EXPECT_EQ(uncertain.nodes().back().layer->kind(), "gaussian_nll");
  EXPECT_EQ(uncertain.parameter_count(), 8907556 + 4 * 64 + 4);
  EXPECT_EQ(uncertain.outputs()[1].first, "variance");
  EXPECT_THROW(nets::cosmoflow_paper({.channels = 1, .targets = 3, .uncertainty = true}), InputError);
  const Graph paper = nets::cosmoflow_paper();
  EXPECT_EQ(paper.nodes()[paper.outputs()[0].second].shape.rows_per_sample(), 64);
}

struct Case {
  std::string name;
  Graph (*make)(const nets::CosmoFlowOptions&);
  nets::CosmoFlowOptions options;
  double (*oracle)(oracle::Tape&, const Array& x, const Array& y, const nets::CosmoFlowOptions&,
                   const ops::StepParams&);
};

ops::ConvParams conv_params(std::int64_t kernel, std::int64_t stride, std::int64_t pad) {
  return {.kernel = {kernel, kernel, kernel},
          .stride = {stride, stride, stride},
          .dilation = {1, 1, 1},
          .pad_begin = {pad, pad, pad},
          .pad_end = {pad, pad, pad},
          .groups = 1,
          .bias = true,
          .activation = {}};
}

ops::PoolParams pool_params(ops::PoolKind kind) { return {kind, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}, {0, 0, 0}, false}; }

const Array all_count({1}, 1.0);

double mlperf_oracle(oracle::Tape& t, const Array& x, const Array& y, const nets::CosmoFlowOptions& o,
                     const ops::StepParams& step_params) {
  const ops::EltwiseParams leaky{ops::EltwiseKind::leaky_relu, 0.3f};
  int v = t.input(x);
  for (int i = 1; i <= 5; ++i)
    v = t.pool(t.eltwise(t.conv(v, fmt::format("conv{}", i), conv_params(3, 1, 1)), leaky),
               pool_params(ops::PoolKind::max));
  v = t.flatten_channels_last(v, t.value(v).elements());
  v = t.dropout(t.eltwise(t.dense(v, "dense1"), leaky), "dropout1", o.dropout, step_params);
  v = t.dropout(t.eltwise(t.dense(v, "dense2"), leaky), "dropout2", o.dropout, step_params);
  const int features = v;
  v = t.eltwise(t.eltwise(t.dense(v, "dense3"), {ops::EltwiseKind::tanh}), {ops::EltwiseKind::linear, 1.2f});
  if (!o.uncertainty) return t.loss(v, y, all_count, {ops::LossKind::mse}, step_params);
  return t.loss(t.concat({v, t.dense(features, "spread")}, 1), y, all_count, {ops::LossKind::gaussian_nll},
                step_params);
}

double paper_oracle(oracle::Tape& t, const Array& x, const Array& y, const nets::CosmoFlowOptions& o,
                    const ops::StepParams& step_params) {
  const ops::EltwiseParams leaky{ops::EltwiseKind::leaky_relu, 0.01f};
  const int kernels[] = {3, 4, 4, 3, 3, 2, 2};
  int v = t.input(x);
  for (int i = 1; i <= 7; ++i) {
    v = t.eltwise(t.conv(v, fmt::format("conv{}", i), conv_params(kernels[i - 1], i == 3 ? 2 : 1, 0)), leaky);
    if (i <= 2) v = t.pool(v, pool_params(ops::PoolKind::average));
  }
  v = t.flatten_channels_last(v, 2048);
  const std::int64_t rows = t.value(v).shape[0];
  v = t.eltwise(t.dense(t.dropout(v, "dropout1", o.dropout, step_params, rows), "dense1"), leaky);
  v = t.eltwise(t.dense(t.dropout(v, "dropout2", o.dropout, step_params, rows), "dense2"), leaky);
  v = t.dense(t.dropout(v, "dropout3", o.dropout, step_params, rows), "dense3");
  return t.loss(v, y, all_count, {ops::LossKind::mae}, step_params, rows);
}

const Case cases[] = {
    {"Mlperf", nets::cosmoflow_mlperf, {.size = 32}, mlperf_oracle},
    {"MlperfWithUncertainty", nets::cosmoflow_mlperf, {.size = 32, .uncertainty = true}, mlperf_oracle},
    {"Paper", nets::cosmoflow_paper, {.size = 80, .channels = 1, .targets = 3}, paper_oracle},
};

class CosmoFlowStep : public ::testing::TestWithParam<int> {};

TEST_P(CosmoFlowStep, AgreesWithTheOracle) {
  const Case& c = cases[GetParam()];
  const std::int64_t s = c.options.size;
  const Array x = oracle::random_uniform({1, c.options.channels, s, s, s}, "x", 0, 2);
  const Array y = oracle::random_uniform({1, c.options.targets}, "y");
  ops::StepParams step_params;
  step_params.seed = 11;
  step_params.step = 3;

  // A near tie of the first max-pooling, which f32 decides otherwise, has a larger share in these gradients.
  const double tolerance = c.options.uncertainty ? 5e-4 : 1e-4;

  std::unique_ptr<oracle::Tape> tape;
  double want_loss = 0;
  for (const std::string& name : network_contexts()) {
    SCOPED_TRACE(name);
    Context& ctx = context(name);
    const Graph graph = c.make(c.options);
    Parameters parameters(graph, ctx, 5);
    Executor executor(graph, parameters, {.batch = 1});
    if (!tape) {
      tape = std::make_unique<oracle::Tape>(plain_parameters(parameters));
      want_loss = c.oracle(*tape, x, y, c.options, step_params);
    }
    set_input(ctx, executor, "x", x);
    set_input(ctx, executor, "y", y);
    executor.forward(step_params);
    executor.backward();
    EXPECT_NEAR(executor.loss(), want_loss, 1e-5 * std::abs(want_loss));
    EXPECT_EQ(tape->gradients().size(), parameters.all().size());
    for (const auto& [parameter, want] : tape->gradients()) {
      const auto got = executor.gradient(parameter);
      EXPECT_LT(relative_error(Array(want.shape, std::vector<double>(got.begin(), got.end())), want), tolerance)
          << parameter;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, CosmoFlowStep, ::testing::Values(0, 1, 2),
                         [](const auto& info) { return cases[info.param].name; });

}  // namespace
}  // namespace keelson::testing
