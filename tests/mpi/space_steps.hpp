#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/execute/executor.hpp"
#include "engine/graph/parameter_parts.hpp"
#include "engine/layers/layers.hpp"
#include "engine/optim/sgd.hpp"
#include "engine/plan/spatial_parts.hpp"
#include "tests/support/contexts.hpp"

/// Steps of ranks that share samples, to compare with those of one rank.
namespace keelson::testing {

/// The whole, on each rank, of an array of which this rank has `mine`. Collective.
inline std::vector<float> whole_array(const Parameter& p, const std::vector<float>& mine, Communicator& ranks) {
  if (!p.part) return mine;
  const auto parts = all_parts(p, ranks);
  const auto all = ranks.gather(is_first_with(parts, ranks.rank()) ? mine : std::vector<float>(), 0);
  std::vector<float> whole(static_cast<std::size_t>(p.shape.elements()));
  const float* next = all.data();
  for (int r = 0; ranks.rank() == 0 && r < ranks.size(); ++r)
    if (is_first_with(parts, r)) next = put_rows(next, p.shape, parts[static_cast<std::size_t>(r)], whole);
  ranks.broadcast(whole.data(), whole.size() * sizeof(float), 0);
  return whole;
}

/// All values and moments, as wholes, on each rank. Collective.
inline std::vector<float> whole_arrays(const Parameters& parameters, Communicator& ranks) {
  std::vector<float> all;
  for (const Parameter& p : parameters.all())
    for (int which = -1; which < static_cast<int>(p.moments.size()); ++which) {
      auto values = p.part ? parameters.gather(p, which, &ranks) : parameters.get(p, which);
      values.resize(static_cast<std::size_t>(p.shape.elements()));
      if (p.part) ranks.broadcast(values.data(), values.size() * sizeof(float), 0);
      all.insert(all.end(), values.begin(), values.end());
    }
  return all;
}

/// Of each step the loss, and of each trained parameter in each step the gradient, as wholes.
struct LossesAndGradients {
  std::vector<double> losses;
  std::vector<std::vector<float>> gradients;
};

/// Backward and update of a step. Collective.
inline void complete_step(Executor& executor, const Graph& g, Parameters& parameters, Communicator& ranks,
                          LossesAndGradients& result) {
  executor.backward();
  result.losses.push_back(executor.loss());
  for (const ParameterSpec& p : g.parameters())
    if (p.kind == ParameterKind::trained)
      result.gradients.push_back(whole_array(parameters.at(p.name), executor.gradient(p.name), ranks));
  executor.update();
}

/// What some steps compute; predictions of the last step.
struct Steps : LossesAndGradients {
  std::vector<float> parameters, predictions;
};

/// A network of these layers, which give a value without spatial dimensions, with a head of 3 targets.
inline Graph network_with_head(const std::function<Var(Var)>& layers, const Shape& sample) {
  Graph g;
  const Var prediction = dense(layers(g.input("x", sample)), 3, "head");
  g.set_output("prediction", prediction);
  mse(prediction, g.input("y", {3}));
  return g;
}

/// Element i of an input of all samples, in a step.
inline float element(std::int64_t i, std::int64_t step) {
  const std::int64_t row = i / 1009, column = i % 1009;
  return std::sin(static_cast<float>(column) * 0.7f + static_cast<float>(row) * 0.3f + static_cast<float>(step));
}

/// Writes the rows that this rank reads of an input of this shape; `first`: its first sample. Integers are classes.
inline void write_part(Executor& executor, Context& c, const Graph::Node& input, std::int64_t first, std::int64_t step,
                       const std::map<std::string, Rows>& inputs) {
  const Tensor t = executor.input(input.name);
  const Shape& sample = input.shape.shape;
  const bool classes = input.shape.dtype == DType::s32;
  const int dim = classes ? 1 : 2;
  const auto found = inputs.find(input.name);
  const std::int64_t rows = found == inputs.end() ? 1 : sample[dim], channels = classes || rows == 1 ? 1 : sample[1];
  const Rows part = found == inputs.end() ? Rows{0, 1} : found->second;
  const std::int64_t row = sample.elements() / rows / channels;
  std::vector<float> values;
  for (std::int64_t n = first; n < first + t.shape()[0]; ++n)
    for (std::int64_t ch = 0; ch < channels; ++ch)
      for (std::int64_t r = part.begin; r < part.end; ++r)
        for (std::int64_t i = 0; i < row; ++i)
          values.push_back(r < 0 || r >= rows ? 0.0f : element(((n * channels + ch) * rows + r) * row + i, step));
  ASSERT_EQ(std::ssize(values), t.elements());
  if (!classes) return c.write_plain(t, values.data());
  std::vector<std::int32_t> numbers;
  for (const float v : values) numbers.push_back(v < -0.9f ? -1 : v < 0 ? 0 : v < 0.5f ? 1 : 2);
  c.device().copy_from_host(t.raw(), numbers.data(), t.bytes());
}

/// Steps of replicas of `space` ranks, each with `batch` samples, in `columns` parts along the second dimension.
/// Without an optimizer in `base`: of SGD.
inline Steps run_steps(const Graph& g, Communicator& ranks, int space, std::int64_t batch, int steps,
                       const PlanOptions& base = {}, float learning_rate = 0.05f, int columns = 1) {
  const ProcessGrid grid(ranks, {.space = space, .columns = columns});
  Context& c = context(network_contexts().back());
  Parameters parameters(g, c, 1);
  const Sgd sgd;
  PlanOptions options = base;
  options.batch = batch;
  if (!options.optimizer) options.optimizer = &sgd;
  options.grid = &grid;
  Executor executor(g, parameters, options);
  const auto inputs = input_rows(g, options);
  Steps result;
  for (int s = 0; s < steps; ++s) {
    const std::int64_t first = grid.coordinate(ProcessGrid::Axis::data) * batch;
    for (const Graph::Node& n : g.nodes())
      if (n.srcs.empty()) write_part(executor, c, n, first, s, inputs);
    executor.forward({.seed = 3,
                      .step = static_cast<std::uint64_t>(s),
                      .sample_offset = first,
                      .inverse_samples = 1.0f / static_cast<float>(batch * grid.extent(ProcessGrid::Axis::data)),
                      .learning_rate = learning_rate});
    const Tensor out = executor.output("prediction");
    result.predictions.resize(static_cast<std::size_t>(out.elements()));
    c.device().copy_to_host(result.predictions.data(), out.raw(), out.bytes());
    complete_step(executor, g, parameters, ranks, result);
  }
  executor.finish_exchange();
  result.parameters = whole_arrays(parameters, ranks);
  return result;
}

/// The whole prediction, on each rank, of two samples by untrained parameters.
inline std::vector<float> predict(const Graph& g, Communicator& ranks, int space, int columns = 1) {
  const ProcessGrid grid(ranks, {.space = space, .columns = columns});
  Context& c = context(network_contexts().back());
  Parameters parameters(g, c, 1);
  const PlanOptions options{.batch = 2, .training = false, .grid = &grid};
  Executor executor(g, parameters, options);
  const auto inputs = input_rows(g, options);
  for (const Graph::Node& n : g.nodes())
    if (n.srcs.empty()) write_part(executor, c, n, 0, 0, inputs);
  executor.forward({});
  const Tensor out = executor.output("prediction");
  std::vector<float> values(static_cast<std::size_t>(out.elements()));
  c.device().copy_to_host(values.data(), out.raw(), out.bytes());
  return values;
}

/// `tolerance`: of the largest value.
inline void expect_near(const std::vector<float>& got, const std::vector<float>& want, double tolerance,
                        const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double largest = 0, error = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(want[i])));
    error = std::max(error, std::abs(static_cast<double>(got[i]) - want[i]));
    ASSERT_TRUE(std::isfinite(got[i])) << what;
  }
  EXPECT_LE(error, tolerance * largest) << what;
}

inline void expect_same_steps(const Steps& got, const Steps& want, const std::string& what) {
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (std::size_t i = 0; i < got.losses.size(); ++i)
    EXPECT_NEAR(got.losses[i], want.losses[i], 1e-5 * want.losses[i]) << what;
  for (std::size_t i = 0; i < got.gradients.size(); ++i)
    expect_near(got.gradients[i], want.gradients[i], 1e-4, what + ": gradient " + std::to_string(i));
  expect_near(got.parameters, want.parameters, 1e-4, what + ": parameters");
}

}  // namespace keelson::testing
