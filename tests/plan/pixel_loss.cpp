#include <gtest/gtest.h>

#include "engine/layers/layers.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/networks.hpp"

/// A small segmentation network, held against the same network whose pixels are rows of the loss of samples.
namespace keelson::testing {
namespace {

Graph segments(bool rows, const ops::PixelLossParams& params = {}) {
  Graph g;
  const Var x = g.input("x", {2, 6, 10}), y = g.input("y", rows ? Shape{60} : Shape{6, 10}, DType::s32);
  const Var logits = conv(relu(conv(x, {.filters = 16}, "a")), {.filters = 3}, "b");
  g.set_output("logits", logits);
  if (rows)
    cross_entropy(flatten(logits, ElementOrder::channels_last, 3), y);
  else
    pixel_cross_entropy(logits, y, params);
  return g;
}

class PixelLossPlan : public ::testing::TestWithParam<std::string> {};

TEST_P(PixelLossPlan, GivesWhatRowsGive) {
  Context& ctx = context(GetParam());
  const Graph graphs[] = {segments(false), segments(true)};
  std::map<std::string, std::vector<float>> gradients[2];
  double losses[2] = {};
  for (int i = 0; i < 2; ++i) {
    Parameters parameters(graphs[i], ctx, 1);
    Executor executor(graphs[i], parameters, {.batch = 2});
    set_input(ctx, executor, "x", oracle::random_uniform({2, 2, 6, 10}, "x"));
    const Array classes = oracle::random_integers({120}, "y", -1, 2);
    const std::vector<std::int32_t> y(classes.data.begin(), classes.data.end());
    const Tensor target = executor.input("y");
    ctx.device().copy_from_host(target.raw(), y.data(), target.bytes());
    executor.forward({.inverse_samples = 0.5f});
    executor.backward();
    losses[i] = executor.loss();
    for (const auto& p : parameters.all()) gradients[i][p.name] = executor.gradient(p.name);
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-6 * losses[1]);
  ASSERT_EQ(gradients[0].size(), 4U);
  for (const auto& [name, want] : gradients[1])
    for (std::size_t k = 0; k < want.size(); ++k)
      EXPECT_NEAR(gradients[0][name][k], want[k], 1e-4 * (std::abs(want[k]) + 1e-2)) << name << " " << k;
}

INSTANTIATE_TEST_SUITE_P(Plan, PixelLossPlan, ::testing::ValuesIn(network_contexts()),
                         [](const auto& info) { return info.param; });

TEST(PixelLossLayer, RefusesWhatDoesNotFit) {
  const auto refusal = [](const Shape& target, DType type, const ops::PixelLossParams& params) -> std::string {
    Graph g;
    const Var x = g.input("x", {3, 6, 10}), y = g.input("y", target, type);
    try {
      pixel_cross_entropy(x, y, params);
    } catch (const InputError& e) {
      return e.what();
    }
    return "nothing is refused";
  };
  const auto has = [](const std::string& text, std::string_view part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(refusal({6, 11}, DType::s32, {}), "one s32 class number per pixel");
  has(refusal({6, 10}, DType::f32, {}), "one s32 class number per pixel");
  has(refusal({6, 10}, DType::s32, {.class_weights = {1, 2}}), "2 class weights were given for 3 classes");
  has(refusal({6, 10}, DType::s32, {.class_weights = {1, -2, 1}}), "weight of class 1 is -2");
  has(refusal({6, 10}, DType::s32, {.focal_gamma = 0.5f}), "expected 0 or at least 1");
  has(refusal({6, 10}, DType::s32, {.sampled_pixels = -1}), "sampled_pixels is -1");
}

}  // namespace
}  // namespace keelson::testing
