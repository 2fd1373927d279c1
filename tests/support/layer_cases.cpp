#include "tests/support/layer_cases.hpp"

#include "engine/layers/layers.hpp"

namespace keelson::testing {

// clang-format off: a line for each
std::vector<LayerCase> convolution_cases() {
  return {
      {"conv", {2, 4, 5}, [](Var x) { return conv(x, {.filters = 3}); }},
      {"conv, wide stride", {2, 5, 6}, [](Var x) { return conv(x, {.filters = 2, .size = 4, .stride = 3}); }},
      {"conv, strides that differ", {2, 6, 5}, [](Var x) { return conv(x, {.filters = 2, .padding = Padding::valid, .kernel = {3, 2}, .strides = {2, 1}}); }},
      {"conv 1-D", {2, 7}, [](Var x) { return conv(x, {.filters = 3, .stride = 2}); }},
      {"conv 3-D", {2, 3, 4, 3}, [](Var x) { return conv(x, {.filters = 2, .stride = 2, .bias = false}); }},
      {"conv, dilated, groups", {4, 5, 5}, [](Var x) { return conv(x, {.filters = 4, .padding = Padding::valid, .dilation = 2, .groups = 2, .kernel = {3, 2}}); }},
      {"conv, one filter per channel", {4, 4, 4}, [](Var x) { return conv(x, {.filters = 4, .groups = 4}); }},
      {"conv, uneven padding", {2, 4, 4}, [](Var x) { return conv(x, {.filters = 2, .padding = Padding::given, .pad_begin = {2, 0}, .pad_end = {1, 1}}); }},
      {"conv and tanh", {2, 4, 5}, [](Var x) { return tanh(conv(x, {.filters = 3})); }},
      {"conv and max_pool", {2, 4, 4}, [](Var x) { return max_pool(conv(x, {.filters = 2, .size = 2}), 2); }},
      {"transposed_conv", {3, 3, 4}, [](Var x) { return transposed_conv(x, {.filters = 2, .stride = 2}); }},
      {"transposed_conv, wide stride", {2, 3, 2}, [](Var x) { return transposed_conv(x, {.filters = 2, .size = 2, .stride = 3}); }},
      {"transposed_conv, groups", {4, 3, 3}, [](Var x) { return transposed_conv(x, {.filters = 4, .stride = 2, .padding = Padding::given, .groups = 2, .bias = false, .pad_begin = {1, 1}, .output_padding = 1}); }},
      {"transposed_conv 3-D, dilated", {2, 2, 3, 2}, [](Var x) { return transposed_conv(x, {.filters = 2, .size = 2, .padding = Padding::valid, .dilation = 2}); }},
  };
}

std::vector<LayerCase> window_cases() {
  using enum ops::ResizeGrid;
  std::vector<LayerCase> cases{
      {"max_pool", {2, 5, 4}, [](Var x) { return max_pool(x, {.size = 3, .stride = 2, .padding = 1}); }},
      {"max_pool, uneven padding", {2, 6, 4}, [](Var x) { return max_pool(x, {.size = 3, .stride = 2, .pad_begin = {0, 0}, .pad_end = {1, 1}}); }},
      {"max_pool, stride alone", {2, 4, 3}, [](Var x) { return max_pool(x, {.size = 1, .stride = 2}); }},
      {"max_pool 3-D", {2, 4, 2, 5}, [](Var x) { return max_pool(x, 2); }},
      {"average_pool", {2, 5, 4}, [](Var x) { return average_pool(x, {.size = 3, .stride = 2, .padding = 1}); }},
      {"average_pool, padding counts", {2, 5, 4}, [](Var x) { return average_pool(x, {.size = 3, .stride = 2, .padding = 1, .count_padding = true}); }},
      {"global_average_pool", {3, 4, 2, 3}, [](Var x) { return global_average_pool(x); }},
  };
  for (const auto grid : {asymmetric, half_pixel, align_corners}) {
    const int number = static_cast<int>(grid);
    cases.push_back({fmt::format("resize up {}", number), {2, 3, 2}, [=](Var x) { return resize(x, {.rows = 6, .columns = 5, .grid = grid}); }});
    cases.push_back({fmt::format("resize down {}", number), {2, 5, 4}, [=](Var x) { return resize(x, {.rows = 2, .columns = 1, .grid = grid}); }});
    cases.push_back({fmt::format("resize one element {}", number), {2, 1, 1}, [=](Var x) { return resize(x, {.rows = 3, .columns = 4, .grid = grid}); }});
  }
  return cases;
}

std::vector<LayerCase> element_cases() {
  return {
      {"relu", {3, 4}, [](Var x) { return relu(x); }},
      {"leaky_relu", {3, 4}, [](Var x) { return leaky_relu(x, 0.3f); }},
      {"tanh", {3, 4}, [](Var x) { return tanh(x); }},
      {"sigmoid", {3, 4}, [](Var x) { return sigmoid(x); }},
      {"gelu", {3, 4}, [](Var x) { return gelu(scale(x, 3)); }},
      {"silu", {3, 4}, [](Var x) { return silu(scale(x, 3)); }},
      {"elu", {3, 4}, [](Var x) { return elu(scale(x, 3), 0.7f); }},
      {"softplus", {3, 4}, [](Var x) { return softplus(scale(x, 3)); }},
      {"gaussian_variance", {6}, [](Var x) { return gaussian_variance(x); }},
      {"scale", {3, 4}, [](Var x) { return scale(x, -1.5f, 0.25f); }},
      {"abs", {3, 4}, [](Var x) { return abs(x); }},
      {"exp", {3, 4}, [](Var x) { return exp(x); }},
      {"log", {3, 4}, [](Var x) { return log(scale(abs(x), 1, 0.5f)); }},
      {"power", {3, 4}, [](Var x) { return power(x, 2) + power(scale(abs(x), 1, 0.5f), -1.5f); }},
      {"difference", {3, 4}, [](Var x) { return tanh(x) - x; }},
      {"exp behind a dense layer", {6}, [](Var x) { return exp(dense(x, 4)); }},
      {"dropout", {3, 4}, [](Var x) { return dropout(x, 0.5f); }},
      {"batch_norm", {3, 4, 3}, [](Var x) { return batch_norm(x, {.epsilon = 1e-2f}); }},
      {"batch_norm of rows", {6}, [](Var x) { return batch_norm(x, {.epsilon = 0.1f}); }},
      {"rms_norm", {6}, [](Var x) { return rms_norm(x, 0.1f); }},
      {"layer_norm", {6}, [](Var x) { return layer_norm(x, {.epsilon = 0.1f}); }},
      {"layer_norm of images", {3, 4, 2}, [](Var x) { return layer_norm(x, {.epsilon = 0.1f}); }},
      {"group_norm", {4, 3, 2}, [](Var x) { return group_norm(x, 2, {.epsilon = 0.1f}); }},
      {"group_norm of volumes", {4, 2, 3, 2}, [](Var x) { return group_norm(tanh(conv(x, {.filters = 6, .size = 1})), 3, {.epsilon = 0.1f}); }},
      {"group_norm of rows", {6}, [](Var x) { return group_norm(x, 2, {.epsilon = 0.1f}); }},
      {"softmax of rows", {6}, [](Var x) { return softmax(x); }},
      {"softmax of channels", {3, 4, 2}, [](Var x) { return softmax(x, 1); }},
      {"softmax of the last axis", {3, 4, 2}, [](Var x) { return softmax(x, 3); }},
      {"add", {3, 4}, [](Var x) { return add({x, tanh(x), x}); }},
      {"multiply", {3, 4}, [](Var x) { return multiply({x, tanh(x), x}); }},
      {"multiply of convolutions", {2, 4, 5}, [](Var x) { return tanh(conv(x, {.filters = 3, .size = 1})) * sigmoid(conv(x, {.filters = 3, .size = 1})); }},
      {"concat", {2, 3, 4}, [](Var x) { return concat({x, tanh(x), x}); }},
      {"concat along the last axis", {2, 3, 4}, [](Var x) { return concat({x, tanh(x)}, 3); }},
      {"flatten", {2, 3, 4}, [](Var x) { return flatten(x); }},
      {"flatten, channels last", {2, 3, 2, 2}, [](Var x) { return flatten(x, ElementOrder::channels_last); }},
      {"reshape", {2, 3, 4}, [](Var x) { return reshape(x, {4, 6}); }},
  };
}

std::vector<LayerCase> row_cases() {
  const auto rows = [](Var x) { return flatten(x, ElementOrder::logical, 4); };
  return {
      {"dense", {6}, [](Var x) { return dense(x, 4); }},
      {"dense without bias, and sigmoid", {6}, [](Var x) { return sigmoid(dense(x, {.features = 4, .bias = false})); }},
      {"dense of rows", {2, 3, 4}, [](Var x) { return dense(flatten(x, ElementOrder::channels_last, 4), 3); }},
      {"dense with the weights of another", {5}, [](Var x) { return dense(tanh(dense(x, 5, "first")), {.features = 5, .weights_of = "first"}); }},
      {"embedding of steps", {4}, [](Var x) { return embedding(x, {.entries = 3, .features = 5}); }, DType::s32},
      {"embedding of one", {}, [](Var x) { return embedding(x, {.entries = 3, .features = 5}); }, DType::s32},
      {"embedding and its transpose", {4}, [](Var x) { return dense(embedding(x, {.entries = 3, .features = 5}, "table"), {.features = 3, .bias = false, .weights_of = "table"}); }, DType::s32},
      {"lstm", {3, 4}, [=](Var x) { return lstm(rows(x), {.hidden = 3, .layers = 2, .dropout = 0.5f}); }},
      {"gru", {3, 4}, [=](Var x) { return gru(rows(x), {.hidden = 3, .layers = 2}); }},
      {"lstm without a state", {3, 4}, [=](Var x) { return lstm(rows(x), {.hidden = 3, .carries_state = false}); }},
      {"gru without a state, last step", {3, 4}, [=](Var x) { return last_step(gru(rows(x), {.hidden = 3, .carries_state = false})); }},
      {"layer_norm of steps", {3, 4}, [=](Var x) { return layer_norm(rows(x), {.epsilon = 0.1f}); }},
      {"attention", {5, 4}, [=](Var x) { const Var r = rows(x); return attention(scale(r, 3), tanh(r), r, 2); }},
      {"attention, causal", {5, 4}, [=](Var x) { const Var r = rows(x); return attention(scale(r, 3), r, scale(r, -1), 1, true); }},
      {"multi_head_attention", {4, 4}, [=](Var x) { return multi_head_attention(rows(x), {.heads = 2, .causal = true, .bias = false}, "all"); }},
      {"last_step", {3, 4}, [=](Var x) { return last_step(rows(x)); }},
      {"last_step of one", {4}, [=](Var x) { return last_step(rows(x)); }},
  };
}

std::vector<LayerCase> loss_cases() {
  const auto classes = [](Var x, const Shape& sample) { return x.graph->input("classes", sample, DType::s32); };
  return {
      {"mse", {6}, [](Var x) { return mse(x, x.graph->input("y", {6})); }},
      {"mae", {6}, [](Var x) { return mae(x, x.graph->input("y", {6})); }},
      {"huber", {6}, [](Var x) { return huber(x, x.graph->input("y", {6}), 0.5f); }},
      {"gaussian_nll", {6}, [](Var x) { return gaussian_nll(dense(x, 4, "mean"), dense(x, 4, "spread"), x.graph->input("y", {4})); }},
      {"gaussian_nll of rows", {3, 4}, [](Var x) { return loss(flatten(x, ElementOrder::logical, 4), x.graph->input("y", {2}), {ops::LossKind::gaussian_nll}); }},
      {"cross_entropy", {5}, [=](Var x) { return cross_entropy(x, classes(x, {})); }},
      {"cross_entropy of rows", {4, 3}, [=](Var x) { return loss(flatten(x, ElementOrder::logical, 3), classes(x, {4}), {.kind = ops::LossKind::cross_entropy, .sum_rows = true}); }},
      {"binary_cross_entropy", {6}, [](Var x) { return binary_cross_entropy(x, sigmoid(x.graph->input("y", {6}))); }},
      {"sampled_softmax", {4}, [=](Var x) { return sampled_softmax(x, classes(x, {}), {.classes = 9, .samples = 5}); }},
      {"sampled_softmax of rows", {3, 4}, [=](Var x) { return sampled_softmax(flatten(x, ElementOrder::logical, 4), classes(x, {3}), {.classes = 20, .samples = 6, .sum_rows = true}); }},
      {"mean_loss", {6}, [](Var x) { return mean_loss(power(x - x.graph->input("y", {6}), 2) * exp(x)); }},
      {"mean_loss of images", {3, 2, 4}, [](Var x) { return mean_loss(log(scale(abs(x), 1, 0.5f))); }},
      {"mean_loss of rows, weighed", {4, 3}, [](Var x) { return mean_loss(softplus(flatten(x, ElementOrder::logical, 3)), "loss", x.graph->input("w", {})); }},
      {"pixel_cross_entropy", {3, 2, 4}, [=](Var x) { return pixel_cross_entropy(x, classes(x, {2, 4}), {.class_weights = {1, 0.5f, 2}, .mean = ops::PixelMean::counted}); }},
      {"pixel_cross_entropy, focal", {3, 2, 4}, [=](Var x) { return pixel_cross_entropy(x, classes(x, {2, 4}), {.focal_gamma = 2}); }},
  };
}
// clang-format on

}  // namespace keelson::testing
