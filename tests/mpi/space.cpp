#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/execute/executor.hpp"
#include "engine/layers/layers.hpp"
#include "engine/optim/sgd.hpp"
#include "engine/plan/spatial_parts.hpp"
#include "nets/cosmoflow/cosmoflow.hpp"
#include "nets/registry.hpp"
#include "tests/mpi/trained.hpp"
#include "tests/mpi/world.hpp"
#include "tests/support/environment_variable.hpp"

/// Parts of samples on the ranks along the axis space: they compute what one rank does with whole samples.
namespace keelson::testing {
namespace {

using Axis = ProcessGrid::Axis;

struct SpaceCase {
  std::string name;
  std::function<Var(Var)> layers;  ///< from the input to a value without spatial dimensions
  Shape sample;
};

Var block(Var x, std::int64_t filters, const std::string& name) {
  return max_pool(leaky_relu(conv(x, {.filters = filters}, name), 0.1f), 2);
}

std::vector<SpaceCase> space_cases() {
  return {
      {"blocks",
       [](Var x) { return flatten(block(block(x, 4, "c1"), 6, "c2"), ElementOrder::channels_last); },
       {2, 16, 8, 8}},
      {"strides and dilation",
       [](Var x) {
         x = relu(conv(x, {.filters = 5, .size = 3, .stride = 2}, "c1"));
         return flatten(tanh(conv(x, {.filters = 3, .size = 3, .dilation = 3}, "c2")));
       },
       {3, 17, 12}},
      {"wide halos",
       [](Var x) {
         return flatten(conv(conv(x, {.filters = 3, .size = 9}, "c1"),
                             {.filters = 2, .size = 4, .padding = Padding::valid}, "c2"));
       },
       {2, 11, 6}},
      {"windows that overlap",
       [](Var x) {
         x = max_pool(conv(x, {.filters = 4}, "c1"), {.size = 3, .stride = 2, .padding = 1});
         return flatten(average_pool(conv(x, {.filters = 3}, "c2"), {.size = 3, .stride = 1, .padding = 1}));
       },
       {2, 12, 10}},
      {"batch normalization and dropout",
       [](Var x) {
         x = relu(batch_norm(conv(x, {.filters = 4, .bias = false}, "c1"), {}, "bn1"));
         x = batch_norm(conv(dropout(x, 0.3f, "drop1"), {.filters = 3, .bias = false}, "c2"), {}, "bn2");
         return flatten(dropout(max_pool(x, 2), 0.2f, "drop2"));
       },
       {2, 8, 6, 4}},
      {"dropout of odd rows",
       [](Var x) { return flatten(dropout(conv(x, {.filters = 3}, "c1"), 0.4f, "drop")); },
       {2, 9, 5}},
      {"up and down",
       [](Var x) {
         const Var half = relu(conv(x, {.filters = 3, .stride = 2}, "c1"));
         const Var up = transposed_conv(half, {.filters = 4, .size = 3, .stride = 2}, "t1");
         const Var wide = transposed_conv(half, {.filters = 2, .size = 1, .stride = 2, .padding = Padding::same}, "t2");
         const Var sized = resize(half, {.rows = 12, .columns = 10, .grid = ops::ResizeGrid::half_pixel}, "r1");
         const Var corners = resize(up, {.rows = 12, .columns = 10, .grid = ops::ResizeGrid::align_corners}, "r2");
         return flatten(concat({up, wide, sized, corners, resize(half, {.rows = 12, .columns = 10}, "r3")}));
       },
       {2, 12, 10}},
      {"several readers",
       [](Var x) {
         const Var a = relu(conv(x, {.filters = 3}, "c1"));
         const Var b = conv(a, {.filters = 3, .size = 5}, "c2"), c = conv(a, {.filters = 3, .size = 1}, "c3");
         const Var d = concat({add({a, b}), c, x});
         return flatten(global_average_pool(conv(d, {.filters = 4}, "c4")));
       },
       {2, 9, 7}},
  };
}

/// Losses, gradients and parameters of some steps.
struct Steps {
  std::vector<double> losses;
  std::vector<std::vector<float>> gradients;
  std::vector<float> parameters, predictions;
};

constexpr std::int64_t samples_of_step = 4;

float element(std::size_t i, std::int64_t step) {
  const std::size_t row = i / 1009;
  return std::sin(static_cast<float>(i % 1009) * 0.7f + static_cast<float>(row) * 0.3f + static_cast<float>(step));
}

/// Writes the rows that this rank reads of an input of this shape; `first`: its first sample. Integers are classes.
void write_part(Executor& executor, Context& c, const Graph::Node& input, std::int64_t first, std::int64_t step,
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
          values.push_back(r < 0 || r >= rows
                               ? 0.0f
                               : element(static_cast<std::size_t>(((n * channels + ch) * rows + r) * row + i), step));
  ASSERT_EQ(std::ssize(values), t.elements());
  if (!classes) return c.write_plain(t, values.data());
  std::vector<std::int32_t> numbers;
  for (const float v : values) numbers.push_back(v < -0.9f ? -1 : v < 0 ? 0 : v < 0.5f ? 1 : 2);
  c.device().copy_from_host(t.raw(), numbers.data(), t.bytes());
}

Graph network_of(const SpaceCase& c) {
  Graph g;
  const Var prediction = dense(c.layers(g.input("x", c.sample)), 3, "head");
  g.set_output("prediction", prediction);
  mse(prediction, g.input("y", {3}));
  return g;
}

Steps run_steps(const Graph& g, Communicator& ranks, int space, std::int64_t batch, int steps,
                const PlanOptions& base = {}, float learning_rate = 0.05f, int columns = 1) {
  const ProcessGrid grid(ranks, {.space = space, .columns = columns});
  Context& c = context(network_contexts().back());
  Parameters parameters(g, c, 1);
  const Sgd sgd;
  PlanOptions options = base;
  options.batch = batch;
  options.optimizer = &sgd;
  options.grid = &grid;
  Executor executor(g, parameters, options);
  const auto inputs = input_rows(g, options);
  Steps result;
  for (int s = 0; s < steps; ++s) {
    const std::int64_t first = grid.coordinate(Axis::data) * batch;
    for (const Graph::Node& n : g.nodes())
      if (n.srcs.empty()) write_part(executor, c, n, first, s, inputs);
    executor.forward({.seed = 3,
                      .step = static_cast<std::uint64_t>(s),
                      .sample_offset = first,
                      .inverse_samples = 1.0f / static_cast<float>(batch * grid.extent(Axis::data)),
                      .learning_rate = learning_rate});
    const Tensor out = executor.output("prediction");
    result.predictions.resize(static_cast<std::size_t>(out.elements()));
    c.device().copy_to_host(result.predictions.data(), out.raw(), out.bytes());
    executor.backward();
    result.losses.push_back(executor.loss());
    for (const ParameterSpec& p : g.parameters())
      if (p.kind == ParameterKind::trained) result.gradients.push_back(executor.gradient(p.name));
    executor.update();
  }
  executor.finish_exchange();
  result.parameters = everything(parameters);
  return result;
}

/// The whole prediction, on each rank, of two samples by untrained parameters.
std::vector<float> predict(const Graph& g, Communicator& ranks, int space, int columns = 1) {
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

void expect_near(const std::vector<float>& got, const std::vector<float>& want, double tolerance,
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

void expect_same_steps(const Steps& got, const Steps& want, const std::string& what) {
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (std::size_t i = 0; i < got.losses.size(); ++i)
    EXPECT_NEAR(got.losses[i], want.losses[i], 1e-5 * want.losses[i]) << what;
  for (std::size_t i = 0; i < got.gradients.size(); ++i)
    expect_near(got.gradients[i], want.gradients[i], 1e-4, what + ": gradient " + std::to_string(i));
  expect_near(got.parameters, want.parameters, 1e-4, what + ": parameters");
}

class SpaceTest : public MpiTest {};

TEST_F(SpaceTest, PartsComputeWhatWholeSamplesDo) {
  KEELSON_NEED_RANKS(2);
  const auto alone = world().split(rank(), 0);
  for (const SpaceCase& c : space_cases()) {
    const Graph g = network_of(c);
    const auto want = run_steps(g, *alone, 1, samples_of_step, 3);
    for (const int space : spaces()) {
      const std::string what = c.name + ", space " + std::to_string(space);
      const auto got = run_steps(g, world(), space, samples_of_step * space / size(), 3);
      expect_same_steps(got, want, what);
    }
  }
}

/// One sample: rows are contiguous, and travel without copies.
TEST_F(SpaceTest, PartsOfOneSampleComputeWhatTheWholeDoes) {
  KEELSON_NEED_RANKS(2);
  const auto alone = world().split(rank(), 0);
  const EnvironmentVariable checked("KEELSON_CHECK", "1");
  for (const SpaceCase& c : space_cases()) {
    const Graph g = network_of(c);
    const auto want = run_steps(g, *alone, 1, 1, 2), got = run_steps(g, world(), size(), 1, 2);
    expect_same_steps(got, want, c.name);
    expect_near(got.predictions, want.predictions, 1e-4, c.name + ": predictions");
  }
}

TEST_F(SpaceTest, CosmoFlowTrainsOnParts) {
  KEELSON_NEED_RANKS(2);
  const Graph g = nets::cosmoflow_mlperf({.size = 32, .targets = 3, .dropout = 0});
  const auto alone = world().split(rank(), 0);
  const auto want = run_steps(g, *alone, 1, 1, 2, {}, 1e-3f);
  expect_same_steps(run_steps(g, world(), size(), 1, 2, {}, 1e-3f), want, "fp32");
  const PlanOptions bf16{.precision = Precision::bf16};
  const auto low = run_steps(g, world(), size(), 1, 2, bf16, 1e-3f), whole = run_steps(g, *alone, 1, 1, 2, bf16, 1e-3f);
  for (std::size_t i = 0; i < low.losses.size(); ++i)
    EXPECT_NEAR(low.losses[i], whole.losses[i], 1e-2 * whole.losses[i]);
  expect_near(low.parameters, whole.parameters, 1e-3, "bf16: parameters");
}

/// Parts along depth and height: corners come through a neighbour.
TEST_F(SpaceTest, BlocksComputeWhatWholeSamplesDo) {
  KEELSON_NEED_RANKS(4);
  const auto alone = world().split(rank(), 0);
  for (const SpaceCase& c : space_cases()) {
    const Graph g = network_of(c);
    if (c.name.find("dropout") != std::string::npos || c.name == "up and down") {
      EXPECT_THROW(run_steps(g, world(), size(), 1, 1, {}, 0.05f, size() / 2), InputError) << c.name;
      continue;
    }
    const EnvironmentVariable checked("KEELSON_CHECK", "1");
    for (const std::int64_t batch : {1, 3})
      expect_same_steps(run_steps(g, world(), size(), batch, 2, {}, 0.05f, size() / 2),
                        run_steps(g, *alone, 1, batch, 2), c.name);
  }
  for (const auto& net : nets::networks_of_family("cosmoflow-")) {
    const Graph g = net.make(net.tiny_settings, net.tiny_sample);
    // One sample: among the millions of values of several, rounding changes the sign of one, and so its gradient.
    expect_same_steps(run_steps(g, world(), size(), 1, 1, {}, 1e-3f, size() / 2),
                      run_steps(g, *alone, 1, 1, 1, {}, 1e-3f), net.name);
    expect_near(predict(g, world(), size(), size() / 2), predict(g, *alone, 1), 1e-3, net.name + ": predictions");
  }
}

/// Losses of pixels are sums over parts: Tiramisu's mean over counted pixels, DeepCAM's over all, sampled pixels.
TEST_F(SpaceTest, SegmentationTrainsOnParts) {
  KEELSON_NEED_RANKS(2);
  const auto alone = world().split(rank(), 0);
  for (const auto& net : nets::networks_of_family("climate-")) {
    const Graph g = net.make(net.tiny_settings, net.tiny_sample);
    const auto want = run_steps(g, *alone, 1, 2, 2, {}, 1e-3f), got = run_steps(g, world(), size(), 2, 2, {}, 1e-3f);
    expect_same_steps(got, want, net.name);
    expect_near(predict(g, world(), size()), predict(g, *alone, 1), 1e-3, net.name + ": predictions");
  }
  for (const ops::PixelMean mean : {ops::PixelMean::none, ops::PixelMean::all, ops::PixelMean::counted}) {
    Graph g;
    const Var logits = conv(g.input("x", {2, 9, 8}), {.filters = 3}, "c1");
    g.set_output("prediction", logits);
    pixel_cross_entropy(logits, g.input("y", {9, 8}, DType::s32),
                        {.class_weights = {0.5f, 2, 0}, .mean = mean, .focal_gamma = 2, .sampled_pixels = 20}, "loss");
    const auto want = run_steps(g, *alone, 1, 3, 3), got = run_steps(g, world(), size(), 3, 3);
    expect_same_steps(got, want, "sampled pixels");
  }
}

/// Rows of transformed samples, dropout behind the parts, a short last step, validations.
TEST_F(SpaceTest, TrainingsTakeTheSameSteps) {
  KEELSON_NEED_RANKS(2);
  const auto run = [&](Communicator* c, int space) {
    auto o = small_options();
    o.epochs = 2;
    o.schedule.base = 1e-2;
    o.replica.space = space;
    const auto predictions = std::make_shared<Predictions>();
    o.evaluation.metrics.resize(1);
    o.evaluation.metrics.push_back(predictions);
    const auto trained = train_cubes(c, 4, o);
    return std::pair(trained, predictions->predicted());
  };
  const auto alone = world().split(rank(), 0);
  const auto [want, expected] = run(alone.get(), 1);
  for (const int space : spaces()) {
    const auto [got, predicted] = run(&world(), space);
    ASSERT_EQ(got.losses.size(), want.losses.size());
    for (std::size_t i = 0; i < want.losses.size(); ++i)
      EXPECT_NEAR(got.losses[i], want.losses[i], 1e-4 * want.losses[i]);
    for (std::size_t i = 0; i < want.validation_losses.size(); ++i)
      EXPECT_NEAR(got.validation_losses[i], want.validation_losses[i], 1e-4 * want.validation_losses[i]);
    expect_near(got.parameters, want.parameters, 1e-4, "parameters");
    if (rank() == 0) expect_near(predicted, expected, 1e-3, "predictions of 7 samples");
  }
}

}  // namespace
}  // namespace keelson::testing
