#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/layers/layers.hpp"
#include "nets/cosmoflow/cosmoflow.hpp"
#include "nets/registry.hpp"
#include "tests/mpi/space_steps.hpp"
#include "tests/mpi/trained.hpp"
#include "tests/mpi/world.hpp"
#include "tests/support/environment_variable.hpp"

/// Parts of samples on the ranks along the axis space: they compute what one rank does with whole samples.
namespace keelson::testing {
namespace {

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

constexpr std::int64_t samples_of_step = 4;

Graph network_of(const SpaceCase& c) { return network_with_head(c.layers, c.sample); }

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
