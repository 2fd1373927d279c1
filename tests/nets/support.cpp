#include "tests/nets/support.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "tests/support/contexts.hpp"
#include "tests/support/networks.hpp"

namespace keelson::testing {

namespace {

/// x[c,h,w] = .5 + .5 sin(.9 c + .05 h (1 + c/16)) cos(.03 w (1 + c/8) + c); one sample.
Array climate_sample(std::int64_t channels, std::int64_t rows, std::int64_t columns) {
  Array x({1, channels, rows, columns});
  std::int64_t i = 0;
  for (std::int64_t channel = 0; channel < channels; ++channel)
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t column = 0; column < columns; ++column) {
        const auto c = static_cast<double>(channel), h = static_cast<double>(row), w = static_cast<double>(column);
        x[i++] = 0.5 + 0.5 * std::sin(0.9 * c + 0.05 * h * (1 + c / 16)) * std::cos(0.03 * w * (1 + c / 8) + c);
      }
  return x;
}

/// (h div 7 + w div 5) mod 3
Array climate_labels(std::int64_t rows, std::int64_t columns) {
  Array y({1, rows, columns});
  for (std::int64_t i = 0; i < y.elements(); ++i) {
    const std::int64_t label = (i / columns / 7 + i % columns / 5) % 3;
    y[i] = static_cast<double>(label);
  }
  return y;
}

/// Element i of the k-th tensor of a convolution, in the order of the nodes: 2 / sqrt(F) sin(1.3 i + .7 k + .011
/// i^1.5), where F are the elements for each first index, or inputs * kernel (deconvolutions: 9 inputs / 4, rounded
/// down). Biases: .01 sin(i). What begins constant stays. Returns the number of tensors of weights. No plan may have
/// made the parameters yet.
int set_climate_weights(const Graph& graph, Parameters& parameters, WeightScale scale) {
  int tensor = 0;
  for (const Graph::Node& n : graph.nodes()) {
    if (!parameters.find(n.name + "/weights")) continue;
    Parameter& weights = parameters.at(n.name + "/weights");
    if (weights.init.kind == Init::Kind::constant) continue;
    const Shape& s = weights.shape;
    const bool by_inputs = n.layer->kind() == "transposed_conv" && scale == WeightScale::fan_in;
    const std::int64_t divisor = by_inputs ? s[0] * s[2] * s[3] / 4 : s.elements() / s[0];
    const double factor = 2 / std::sqrt(static_cast<double>(divisor)), first = 0.7 * tensor++;
    weights.start.resize(static_cast<std::size_t>(s.elements()));
    for (std::size_t i = 0; i < weights.start.size(); ++i) {
      const auto at = static_cast<double>(i);
      weights.start[i] = static_cast<float>(factor * std::sin(1.3 * at + first + 0.011 * at * std::sqrt(at)));
    }
    if (!parameters.find(n.name + "/bias")) continue;
    Parameter& bias = parameters.at(n.name + "/bias");
    bias.start.resize(static_cast<std::size_t>(bias.shape.elements()));
    for (std::size_t i = 0; i < bias.start.size(); ++i)
      bias.start[i] = static_cast<float>(0.01 * std::sin(static_cast<double>(i)));
  }
  return tensor;
}

}  // namespace

void expect_climate_vector(const Graph& graph, WeightScale scale, const ClimateVector& want, double tolerance) {
  const Shape sample = graph.nodes()[0].shape.shape;
  const std::int64_t rows = sample[2], columns = sample[3], pixels = rows * columns;
  const std::string name = network_contexts().back();
  Context& ctx = context(name);
  Parameters parameters(graph, ctx, 1);
  EXPECT_EQ(set_climate_weights(graph, parameters, scale), want.tensors);
  Executor executor(graph, parameters, {.batch = 1});
  set_input(ctx, executor, "x", climate_sample(sample[1], rows, columns));
  set_input(ctx, executor, "y", climate_labels(rows, columns));
  executor.forward({});
  EXPECT_NEAR(executor.loss(), want.loss, tolerance * want.loss);
  const Array logits = get_output(ctx, executor, "prediction");
  double worst = 0;
  const auto expect = [&](double got, double wanted, std::size_t c, const char* what) {
    // Errors are those of sums, which are as large as the logits are far apart.
    EXPECT_NEAR(got, wanted, tolerance * want.deviation[c]) << what << " of class " << c;
    worst = std::max(worst, std::abs(got - wanted) / want.deviation[c]);
  };
  for (std::size_t c = 0; c < want.first.size(); ++c) {
    const auto begin = static_cast<std::int64_t>(c) * pixels;
    expect(logits[begin], want.first[c], c, "first pixel");
    expect(logits[begin + rows / 2 * columns + columns / 2], want.middle[c], c, "middle pixel");
    double mean = 0, squares = 0;
    for (std::int64_t i = 0; i < pixels; ++i) mean += logits[begin + i] / static_cast<double>(pixels);
    for (std::int64_t i = 0; i < pixels; ++i) squares += std::pow(logits[begin + i] - mean, 2);
    expect(mean, want.mean[c], c, "mean");
    // Rounded after seven decimals; whether the divisor was n or n - 1 is not seen.
    expect(std::sqrt(squares / static_cast<double>(pixels)), want.deviation[c], c, "deviation");
  }
  std::printf("%s: loss %.10f, largest error of logits %.1e of their deviation\n", name.c_str(), executor.loss(),
              worst);
}

void expect_step(const Graph& graph, const Array& x, const Array& y, const OracleNetwork& network) {
  expect_step(graph, {{"x", x}, {"y", y}}, network);
}

void expect_step(const Graph& graph, const std::map<std::string, Array>& inputs, const OracleNetwork& network) {
  const std::int64_t batch = inputs.at("x").shape[0];
  ops::StepParams now{.seed = 11, .step = 3, .inverse_samples = 1.0f / static_cast<float>(batch)};
  std::unique_ptr<oracle::Tape> tape;
  double want_loss = 0;
  for (const std::string& name : network_contexts()) {
    SCOPED_TRACE(name);
    Context& ctx = context(name);
    Parameters parameters(graph, ctx, 5);
    Executor executor(graph, parameters, {.batch = batch});
    if (!tape) {
      tape = std::make_unique<oracle::Tape>(plain_parameters(parameters));
      want_loss = network(*tape, now);
    }
    for (const auto& [input, values] : inputs) set_input(ctx, executor, input, values);
    executor.forward(now);
    executor.backward();
    EXPECT_NEAR(executor.loss(), want_loss, 1e-5 * want_loss);
    const auto trained = [](const Parameter& p) { return p.kind == ParameterKind::trained; };
    EXPECT_EQ(tape->gradients().size(), std::ranges::count_if(parameters.all(), trained));
    double worst = 0, largest = 0;
    for (const auto& [parameter, want] : tape->gradients())
      largest = std::max(largest, std::sqrt(oracle::dot(want, want)));
    // What a batch norm takes back, as a bias before it, has a gradient of terms that cancel: rounding is what is left.
    const double cancelled = 1e-3 * largest;
    for (const auto& [parameter, want] : tape->gradients()) {
      const auto got = executor.gradient(parameter);
      double difference = 0;
      for (std::int64_t i = 0; i < want.elements(); ++i)
        difference += std::pow(static_cast<double>(got[static_cast<std::size_t>(i)]) - want[i], 2);
      const double error = std::sqrt(difference) / std::max(std::sqrt(oracle::dot(want, want)), cancelled);
      EXPECT_LT(error, 1e-4) << parameter;
      worst = std::max(worst, error);
    }
    std::printf("%s: largest relative error of a gradient %.1e\n", name.c_str(), worst);
  }
}

}  // namespace keelson::testing
