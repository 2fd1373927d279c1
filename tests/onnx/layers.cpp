#include <gtest/gtest.h>

#include "engine/layers/layers.hpp"
#include "tests/onnx/runtime.hpp"
#include "tests/support/layer_cases.hpp"

/// Every layer, alone, in onnxruntime. A new layer gets a line in tests/support/layer_cases.cpp.
namespace keelson::testing {
namespace {

ExportedCase exported(const LayerCase& layer) {
  ExportedCase c{layer.name, {}};
  c.graph.set_output("out", layer.layer(c.graph.input("x", layer.sample, layer.dtype)));
  for (const Graph::Node& n : c.graph.nodes())
    if (n.is_state) c.steps = 3;
  return c;
}

void expect_same(const std::vector<LayerCase>& layers) {
  std::vector<ExportedCase> cases;
  for (const LayerCase& layer : layers) cases.push_back(exported(layer));
  expect_same_elsewhere(cases);
}

TEST(OnnxLayers, Convolutions) { expect_same(convolution_cases()); }
TEST(OnnxLayers, WindowsAndResizing) { expect_same(window_cases()); }
TEST(OnnxLayers, ElementsAndShapes) { expect_same(element_cases()); }
TEST(OnnxLayers, DenseAndRecurrentLayers) { expect_same(row_cases()); }

TEST(OnnxLayers, RecurrentLayersOfOneStep) {
  const auto row = [](Var x) { return flatten(x, ElementOrder::logical, 5); };
  expect_same({{"lstm of one step", {1, 5}, [=](Var x) { return lstm(row(x), {.hidden = 3}); }},
               {"gru of one step", {1, 5}, [=](Var x) { return gru(row(x), {.hidden = 3}); }}});
}

TEST(OnnxLayers, WeightsInASecondFile) {
  std::vector<ExportedCase> cases;
  cases.push_back(exported({"dense", {64}, [](Var x) { return dense(relu(dense(x, 48, "hidden")), 32, "last"); }}));
  cases[0].largest_file = 1;
  expect_same_elsewhere(cases);
}

}  // namespace
}  // namespace keelson::testing
