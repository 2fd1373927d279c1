#include "tests/support/network_runs.hpp"

#include <algorithm>
#include <cmath>

#include "engine/execute/executor.hpp"
#include "engine/optim/sgd.hpp"
#include "tests/support/networks.hpp"

namespace keelson::testing {

namespace {

constexpr std::int64_t batch_of_runs = 3;

/// Numbers below this limit are valid for a node that reads integers: classes of a loss, entries of an embedding.
std::int64_t integer_limit_of(const Graph& graph, int input) {
  for (const Graph::Node& n : graph.nodes())
    if (std::ranges::find(n.srcs, input) != n.srcs.end()) {
      if (n.layer->kind() == "embedding") return n.layer->parameters(graph.source_shapes(n))[0].shape[0];
      return graph.nodes()[static_cast<std::size_t>(n.srcs[0])].shape.shape[1];
    }
  return 1;
}

void fill_inputs(Context& context, const Executor& executor, const NetworkInputs& inputs) {
  for (const auto& [name, values] : inputs) set_input(context, executor, name, values);
}

}  // namespace

Graph without_dropout(const Graph& graph) {
  Graph g;
  std::vector<Var> vars;
  for (const Graph::Node& n : graph.nodes()) {
    const Shape sample(std::span(n.shape.shape.begin() + (n.shape.shape.rank() > 0 ? 1 : 0), n.shape.shape.end()));
    std::vector<Var> srcs;
    for (const int s : n.srcs) srcs.push_back(vars[static_cast<std::size_t>(s)]);
    if (n.is_state)
      vars.push_back(g.state(n.name, sample));
    else if (n.is_input())
      vars.push_back(g.input(n.name, sample, n.shape.dtype));
    else
      vars.push_back(n.layer->kind() == "dropout" ? srcs[0] : g.add(n.layer, srcs, n.name, n.shared));
  }
  for (const auto& [name, node] : graph.outputs()) g.set_output(name, vars[static_cast<std::size_t>(node)]);
  g.set_loss(vars[static_cast<std::size_t>(graph.loss())]);
  return g;
}

std::map<std::string, nets::MlpOptions> dense_networks() {
  std::map<std::string, nets::MlpOptions> all;
  for (const char* activation : {"tanh", "relu", "gelu", "silu", "sigmoid"})
    for (const bool classes : {false, true})
      all[fmt::format("dense network, {}, {}", activation, classes ? "classes" : "numbers")] = {
          .features = 6,
          .outputs = 3,
          .classes = classes,
          .layers = 3,
          .units = 9,
          .activation = activation,
          .batch_norm = classes,
          .dropout = 0.5f};
  return all;
}

NetworkInputs random_inputs(const Graph& graph, std::uint64_t seed) {
  NetworkInputs inputs;
  for (int i = 0; i < std::ssize(graph.nodes()); ++i) {
    const Graph::Node& n = graph.nodes()[static_cast<std::size_t>(i)];
    if (!n.is_input()) continue;
    Array values = oracle::random_uniform(n.shape.at_batch(batch_of_runs), fmt::format("{}{}", n.name, seed), -1, 1);
    if (n.shape.dtype == DType::s32) {
      const auto limit = static_cast<double>(integer_limit_of(graph, i));
      for (auto& v : values.data) v = std::min(std::floor((v + 1) / 2 * limit), limit - 1);
    }
    inputs.emplace(n.name, std::move(values));
  }
  return inputs;
}

Array taken(const Array& whole, int dim, const std::vector<std::int64_t>& indices) {
  Shape shape = whole.shape;
  std::int64_t before = 1, behind = 1;
  for (int d = 0; d < dim; ++d) before *= shape[d];
  for (int d = dim + 1; d < shape.rank(); ++d) behind *= shape[d];
  const std::int64_t extent = shape[dim];
  shape[dim] = std::ssize(indices);
  Array part(shape);
  std::size_t at = 0;
  for (std::int64_t b = 0; b < before; ++b)
    for (const auto k : indices)
      for (std::int64_t i = 0; i < behind; ++i)
        part.data[at++] = whole.data[static_cast<std::size_t>((b * extent + k) * behind + i)];
  return part;
}

void set_random_values(Parameters& parameters, std::uint64_t seed) {
  for (Parameter& p : parameters.all()) {
    const std::int64_t inputs_of_unit = p.shape.elements() / p.shape[0];
    const auto number = static_cast<float>(inputs_of_unit);
    auto values = initial_values(Init::uniform(p.shape.rank() > 1 ? 1.5f / std::sqrt(number) : 0.5f),
                                 fmt::format("{}{}", p.name, seed), p.shape, 1);
    if (p.name.ends_with("running_variance") || p.name.ends_with("scale"))
      for (float& v : values) v += 1;
    parameters.set(p, values);
  }
}

double norm_of_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - b[i], 2);
    norm += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference) / std::max(std::sqrt(norm), 1e-2);
}

std::map<std::string, std::vector<float>> outputs_of(Context& context, const Graph& graph, Parameters& parameters,
                                                     const NetworkInputs& inputs) {
  Executor executor(graph, parameters, {.batch = batch_of_runs, .training = false});
  fill_inputs(context, executor, inputs);
  executor.forward({});
  std::map<std::string, std::vector<float>> all;
  for (const auto& output : graph.outputs()) {
    const Array values = get_output(context, executor, output.first);
    all[output.first] = {values.data.begin(), values.data.end()};
  }
  return all;
}

double train_step(Context& context, const Graph& graph, Parameters& parameters, const NetworkInputs& inputs) {
  Sgd sgd;
  sgd.momentum = 0.9f;
  Executor executor(graph, parameters, {.batch = batch_of_runs, .optimizer = &sgd});
  fill_inputs(context, executor, inputs);
  executor.forward({.inverse_samples = 1.0f / batch_of_runs, .learning_rate = 0.05f});
  executor.backward();
  executor.update();
  return executor.loss();
}

}  // namespace keelson::testing
