#include <gtest/gtest.h>

#include <functional>

#include "engine/layers/layers.hpp"
#include "tests/onnx/runtime.hpp"

/// Every layer function, alone, in onnxruntime.
namespace keelson::testing {
namespace {

/// Networks of one layer.
class Layers {
 public:
  ExportedCase& add(const std::string& name, const Shape& sample, const std::function<Var(Var)>& layer,
                    DType dtype = DType::f32) {
    ExportedCase& c = cases_.emplace_back(ExportedCase{name, {}});
    c.graph.set_output("out", layer(c.graph.input("x", sample, dtype)));
    return c;
  }
  void expect_same() const { expect_same_elsewhere(cases_); }

 private:
  std::vector<ExportedCase> cases_;
};

TEST(OnnxLayers, Convolutions) {
  Layers layers;
  layers.add("conv same", {3, 7, 8}, [](Var x) { return conv(x, {.filters = 5, .size = 4, .stride = 3}); });
  layers.add("conv 1-D", {3, 9}, [](Var x) { return conv(x, {.filters = 2}); });
  layers.add("conv 3-D", {2, 5, 6, 7}, [](Var x) { return conv(x, {.filters = 3, .stride = 2, .bias = false}); });
  layers.add("conv valid, dilated, groups", {4, 9, 9}, [](Var x) {
    return conv(x, {.filters = 6, .padding = Padding::valid, .dilation = 2, .groups = 2, .kernel = {3, 2}});
  });
  layers.add("conv given", {2, 6, 6}, [](Var x) {
    return conv(x, {.filters = 3, .padding = Padding::given, .pad_begin = {2, 0}, .pad_end = {1, 1}});
  });
  layers.add("transposed_conv same", {3, 5, 4}, [](Var x) { return transposed_conv(x, {.filters = 4, .stride = 2}); });
  layers.add("transposed_conv same, wide stride", {3, 5, 4},
             [](Var x) { return transposed_conv(x, {.filters = 4, .size = 2, .stride = 3}); });
  layers.add("transposed_conv given, groups", {4, 5, 4}, [](Var x) {
    return transposed_conv(x, {.filters = 6,
                               .stride = 2,
                               .padding = Padding::given,
                               .groups = 2,
                               .bias = false,
                               .pad_begin = {1, 1},
                               .output_padding = 1});
  });
  layers.add("transposed_conv 3-D, valid, dilated", {2, 3, 4, 3}, [](Var x) {
    return transposed_conv(x, {.filters = 3, .size = 2, .padding = Padding::valid, .dilation = 2});
  });
  layers.expect_same();
}

TEST(OnnxLayers, WindowsAndResizing) {
  Layers layers;
  layers.add("max_pool", {2, 7, 6, 5}, [](Var x) { return max_pool(x, 2); });
  layers.add("max_pool, padding", {2, 7, 6}, [](Var x) { return max_pool(x, {.size = 3, .stride = 2, .padding = 1}); });
  layers.add("max_pool, uneven padding", {2, 8, 6},
             [](Var x) { return max_pool(x, {.size = 3, .stride = 2, .pad_begin = {0, 0}, .pad_end = {1, 1}}); });
  layers.add("max_pool, stride alone", {2, 8, 6}, [](Var x) { return max_pool(x, {.size = 1, .stride = 2}); });
  for (const bool count : {false, true})
    layers.add(fmt::format("average_pool {}", count), {2, 7, 6},
               [=](Var x) { return average_pool(x, {.size = 3, .stride = 2, .padding = 1, .count_padding = count}); });
  layers.add("global_average_pool", {3, 5, 4, 6}, [](Var x) { return global_average_pool(x); });
  using enum ops::ResizeGrid;
  for (const auto grid : {asymmetric, half_pixel, align_corners}) {
    layers.add(fmt::format("resize up {}", static_cast<int>(grid)), {2, 5, 4},
               [=](Var x) { return resize(x, {.rows = 10, .columns = 7, .grid = grid}); });
    layers.add(fmt::format("resize down {}", static_cast<int>(grid)), {2, 9, 8},
               [=](Var x) { return resize(x, {.rows = 4, .columns = 1, .grid = grid}); });
    layers.add(fmt::format("resize one element {}", static_cast<int>(grid)), {2, 1, 1},
               [=](Var x) { return resize(x, {.rows = 3, .columns = 4, .grid = grid}); });
  }
  layers.expect_same();
}

TEST(OnnxLayers, ElementsAndRows) {
  Layers layers;
  layers.add("relu", {3, 4}, [](Var x) { return relu(x); });
  layers.add("leaky_relu", {3, 4}, [](Var x) { return leaky_relu(x, 0.3f); });
  layers.add("tanh", {3, 4}, [](Var x) { return tanh(x); });
  layers.add("sigmoid", {3, 4}, [](Var x) { return sigmoid(x); });
  layers.add("gelu", {3, 4}, [](Var x) { return gelu(scale(x, 3)); });
  layers.add("silu", {3, 4}, [](Var x) { return silu(scale(x, 3)); });
  layers.add("scale", {3, 4}, [](Var x) { return scale(x, -1.5f, 0.25f); });
  layers.add("dropout", {3, 4}, [](Var x) { return dropout(x, 0.5f); });
  layers.add("batch_norm", {3, 4, 5}, [](Var x) { return batch_norm(x, {.epsilon = 1e-2f}); });
  layers.add("batch_norm of rows", {6}, [](Var x) { return batch_norm(x); });
  layers.add("rms_norm", {6}, [](Var x) { return rms_norm(x, 0.1f); });
  layers.add("softmax of rows", {6}, [](Var x) { return softmax(x); });
  layers.add("softmax of channels", {3, 4, 2}, [](Var x) { return softmax(x, 1); });
  layers.add("softmax of the last axis", {3, 4, 2}, [](Var x) { return softmax(x, 3); });
  layers.add("dense", {6}, [](Var x) { return dense(x, 4); });
  layers.add("dense without bias", {6}, [](Var x) { return dense(x, {.features = 4, .bias = false}); });
  layers.add("add three", {3, 4}, [](Var x) { return add({x, tanh(x), relu(x)}); });
  layers.add("concat", {2, 3, 4}, [](Var x) { return concat({x, conv(x, {.filters = 3}), x}); });
  layers.add("concat along the last axis", {2, 3, 4}, [](Var x) { return concat({x, tanh(x)}, 3); });
  layers.add("flatten", {2, 3, 4}, [](Var x) { return flatten(x); });
  layers.add("flatten, channels last", {2, 3, 4, 2}, [](Var x) { return flatten(x, ElementOrder::channels_last); });
  layers.add("flatten to rows", {2, 3, 4}, [](Var x) { return dense(flatten(x, ElementOrder::channels_last, 4), 3); });
  layers.add("reshape", {2, 3, 4}, [](Var x) { return reshape(x, {4, 6}); });
  layers.expect_same();
}

TEST(OnnxLayers, RecurrentLayers) {
  Layers layers;
  const auto rows = [](Var x) { return flatten(x, ElementOrder::logical, 5); };
  layers.add("lstm", {4, 5}, [=](Var x) { return lstm(rows(x), {.hidden = 6, .layers = 2, .dropout = 0.5f}); }).steps =
      3;
  layers.add("gru", {4, 5}, [=](Var x) { return gru(rows(x), {.hidden = 6, .layers = 2}); }).steps = 3;
  layers.add("lstm of one step", {1, 5}, [=](Var x) { return lstm(rows(x), {.hidden = 3}); }).steps = 3;
  layers.add("gru of one step", {1, 5}, [=](Var x) { return gru(rows(x), {.hidden = 3}); }).steps = 3;
  const auto look_up = [](Var x) { return embedding(x, {.entries = 3, .features = 5}); };
  layers.add("embedding of steps", {4}, look_up, DType::s32);
  layers.add("embedding of one", {}, look_up, DType::s32);
  layers.expect_same();
}

TEST(OnnxLayers, WeightsInASecondFile) {
  Layers layers;
  layers.add("dense", {64}, [](Var x) { return dense(relu(dense(x, 48, "hidden")), 32, "last"); }).largest_file = 1;
  layers.expect_same();
}

}  // namespace
}  // namespace keelson::testing
