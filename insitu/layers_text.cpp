#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <functional>
#include <sstream>

#include "engine/base/error.hpp"
#include "engine/base/parse_number.hpp"
#include "engine/layers/layers.hpp"
#include "insitu/network.hpp"

namespace keelson::insitu {
namespace {

/// One layer of the text: a word, and numbers.
struct Words {
  std::string text, name;
  std::vector<double> numbers;

  std::int64_t whole(std::size_t i, std::int64_t missing) const {
    if (i >= numbers.size()) return missing;
    if (numbers[i] != std::floor(numbers[i]) || !(numbers[i] >= 1 && numbers[i] <= 1e9))
      refuse("{} in the layer '{}'. Expected a whole number of at least 1", numbers[i], text);
    return static_cast<std::int64_t>(numbers[i]);
  }
  float real(std::size_t i, float missing) const {
    return i < numbers.size() ? static_cast<float>(numbers[i]) : missing;
  }
};

/// A layer that texts may name: how many numbers it takes, their meaning, and a function that makes it.
struct Known {
  std::size_t least, most;
  const char* usage;
  std::function<Var(Var, const Words&)> make;
};

Var convolution(Var x, const Words& w) {
  return conv(x, {.filters = w.whole(0, 1), .size = w.whole(1, 3), .stride = w.whole(2, 1), .dilation = w.whole(3, 1)});
}

Var deconvolution(Var x, const Words& w) {
  return transposed_conv(x, {.filters = w.whole(0, 1), .size = w.whole(1, 3), .stride = w.whole(2, 2)});
}

const std::map<std::string, Known>& known_layers() {
  static const std::map<std::string, Known> all{
      {"average_pool",
       {1, 1, "average_pool SIZE", [](Var x, const Words& w) { return average_pool(x, w.whole(0, 2)); }}},
      {"batch_norm", {0, 0, "batch_norm", [](Var x, const Words&) { return batch_norm(x); }}},
      {"conv", {1, 4, "conv FILTERS [SIZE [STRIDE [DILATION]]]", convolution}},
      {"dense", {1, 1, "dense FEATURES", [](Var x, const Words& w) { return dense(x, w.whole(0, 1)); }}},
      {"dropout", {1, 1, "dropout RATE", [](Var x, const Words& w) { return dropout(x, w.real(0, 0)); }}},
      {"elu", {0, 0, "elu", [](Var x, const Words&) { return elu(x); }}},
      {"flatten", {0, 0, "flatten", [](Var x, const Words&) { return flatten(x); }}},
      {"gelu", {0, 0, "gelu", [](Var x, const Words&) { return gelu(x); }}},
      {"global_average_pool",
       {0, 0, "global_average_pool", [](Var x, const Words&) { return flatten(global_average_pool(x)); }}},
      {"leaky_relu", {1, 1, "leaky_relu SLOPE", [](Var x, const Words& w) { return leaky_relu(x, w.real(0, 0)); }}},
      {"max_pool", {1, 1, "max_pool SIZE", [](Var x, const Words& w) { return max_pool(x, w.whole(0, 2)); }}},
      {"relu", {0, 0, "relu", [](Var x, const Words&) { return relu(x); }}},
      {"scale",
       {1, 2, "scale FACTOR [OFFSET]", [](Var x, const Words& w) { return scale(x, w.real(0, 1), w.real(1, 0)); }}},
      {"sigmoid", {0, 0, "sigmoid", [](Var x, const Words&) { return sigmoid(x); }}},
      {"silu", {0, 0, "silu", [](Var x, const Words&) { return silu(x); }}},
      {"tanh", {0, 0, "tanh", [](Var x, const Words&) { return tanh(x); }}},
      {"transposed_conv", {1, 3, "transposed_conv FILTERS [SIZE [STRIDE]]", deconvolution}}};
  return all;
}

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const auto& [name, layer] : known_layers()) names.push_back(name);
  return names;
}

std::vector<Words> split(const std::string& layers, const std::string& model) {
  std::vector<Words> all;
  std::istringstream parts(layers);
  for (std::string part; std::getline(parts, part, ';');) {
    std::istringstream words(part);
    Words w;
    if (!(words >> w.name)) continue;
    w.text = w.name;
    for (std::string word; words >> word;) {
      w.text += " " + word;
      const auto number = parse_number<double>(word);
      if (!number) refuse("model '{}': '{}' in the layer '{}' is no number", model, word, w.text);
      w.numbers.push_back(*number);
    }
    all.push_back(std::move(w));
  }
  if (all.empty())
    refuse("model '{}' has no layers. Expected a text such as \"batch_norm; conv 16; relu; conv 2\"", model);
  return all;
}

/// Appends the loss, and the output for users: probabilities of classes, or values.
void finish(Graph& graph, Var x, const Shape& input, const Loss& loss, const std::string& model) {
  const Shape& result = x.shape().shape;
  if (loss.kind.empty()) return graph.set_output("prediction", x);
  Shape cells;
  for (int d = 1; d < input.rank(); ++d) cells.push_back(input[d]);
  bool per_cell = result.rank() == input.rank() + 1;
  for (int d = 0; per_cell && d < cells.rank(); ++d) per_cell = result[d + 2] == cells[d];
  if (!per_cell || (!loss.of_classes() && result[1] != 1) || (loss.of_classes() && result[1] < 2))
    refuse(
        "model '{}': the result of the layers is {}, but a network that learns by {} needs {} with the extents {} of "
        "its "
        "input. Try to end with \"conv {} 1\"",
        model, keelson::to_string(result), loss.kind, loss.of_classes() ? "2 or more channels" : "1 channel",
        keelson::to_string(cells), loss.of_classes() ? 2 : 1);
  if (loss.of_classes()) {
    if (!loss.class_weights.empty() && std::ssize(loss.class_weights) != result[1])
      refuse("model '{}': {} weights of classes, but {} channels. Expected as many, or no weights", model,
             loss.class_weights.size(), result[1]);
    pixel_cross_entropy(x, graph.input("y", cells, DType::s32), {.class_weights = loss.class_weights});
    return graph.set_output("prediction", softmax(x));
  }
  const Var rows = flatten(x), y = graph.input("y", {cells.elements()});
  if (loss.kind == "mse") mse(rows, y);
  if (loss.kind == "mae") mae(rows, y);
  if (loss.kind == "huber") huber(rows, y);
  graph.set_output("prediction", x);
}

}  // namespace

Loss parse_loss(const std::string& text, const std::string& model) {
  std::istringstream words(text);
  Loss loss;
  words >> loss.kind;
  if (loss.kind != "mse" && loss.kind != "mae" && loss.kind != "huber" && loss.kind != "cross_entropy")
    refuse("model '{}': the loss is '{}'. Expected mse, mae, huber, or cross_entropy with the weights of its classes",
           model, text);
  for (std::string word; words >> word;) {
    const auto weight = parse_number<float>(word);
    if (!loss.of_classes() || !weight || !(*weight >= 0))
      refuse("model '{}': '{}' in the loss '{}'. Expected {}", model, word, text,
             loss.of_classes() ? "weights of classes, at least 0" : "nothing behind the name of this loss");
    loss.class_weights.push_back(*weight);
  }
  return loss;
}

Network network_of_layers(const std::string& layers, const Shape& input, const Loss& loss, const std::string& model) {
  Network network;
  Var x = network.graph.input("x", input);
  for (const Words& w : split(layers, model)) {
    const auto found = known_layers().find(w.name);
    if (found == known_layers().end())
      refuse("model '{}': there is no layer '{}'. Expected one of {}", model, w.name, fmt::join(known_names(), ", "));
    const Known& layer = found->second;
    if (w.numbers.size() < layer.least || w.numbers.size() > layer.most)
      refuse("model '{}': the layer '{}' has {} numbers. Expected {}", model, w.text, w.numbers.size(), layer.usage);
    x = layer.make(x, w);
  }
  finish(network.graph, x, input, loss, model);
  network.config = {{"layers", layers}};
  return network;
}

}  // namespace keelson::insitu
