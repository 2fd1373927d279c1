#include "tests/prune/same_network.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/base/philox.hpp"
#include "engine/execute/executor.hpp"
#include "engine/optim/sgd.hpp"
#include "tests/support/networks.hpp"

namespace keelson::testing {

namespace {

constexpr std::int64_t samples = 3;

/// Numbers below this limit are valid for a node that reads integers: classes of a loss, entries of an embedding.
std::int64_t limit_of(const Graph& graph, int input) {
  for (const Graph::Node& n : graph.nodes())
    if (std::ranges::find(n.srcs, input) != n.srcs.end()) {
      if (n.layer->kind() == "embedding") return n.layer->parameters(graph.source_shapes(n))[0].shape[0];
      return graph.nodes()[static_cast<std::size_t>(n.srcs[0])].shape.shape[1];
    }
  return 1;
}

/// The values of all inputs and states for a batch.
std::map<std::string, Array> random_inputs(const Graph& graph, std::uint64_t seed) {
  std::map<std::string, Array> inputs;
  for (int i = 0; i < std::ssize(graph.nodes()); ++i) {
    const Graph::Node& n = graph.nodes()[static_cast<std::size_t>(i)];
    if (!n.is_input()) continue;
    Array values = oracle::random_uniform(n.shape.at_batch(samples), fmt::format("{}{}", n.name, seed), -1, 1);
    if (n.shape.dtype == DType::s32) {
      const auto limit = static_cast<double>(limit_of(graph, i));
      for (auto& v : values.data) v = std::min(std::floor((v + 1) / 2 * limit), limit - 1);
    }
    inputs.emplace(n.name, std::move(values));
  }
  return inputs;
}

/// The elements of `whole` whose index along dimension `dim` is in `kept`.
Array taken(const Array& whole, int dim, const std::vector<std::int64_t>& kept) {
  Shape shape = whole.shape;
  std::int64_t before = 1, behind = 1;
  for (int d = 0; d < dim; ++d) before *= shape[d];
  for (int d = dim + 1; d < shape.rank(); ++d) behind *= shape[d];
  const std::int64_t extent = shape[dim];
  shape[dim] = std::ssize(kept);
  Array part(shape);
  std::size_t at = 0;
  for (std::int64_t b = 0; b < before; ++b)
    for (const auto k : kept)
      for (std::int64_t i = 0; i < behind; ++i)
        part.data[at++] = whole.data[static_cast<std::size_t>((b * extent + k) * behind + i)];
  return part;
}

/// Sets the elements of the units that go, in dimension `dim`, to zero.
void clear(std::vector<float>& values, const Shape& shape, const UnitPlace& place,
           const std::vector<std::int64_t>& keep) {
  std::int64_t behind = 1;
  for (int d = place.dim + 1; d < shape.rank(); ++d) behind *= shape[d];
  std::vector<char> goes(static_cast<std::size_t>(shape[place.dim]));
  for (std::int64_t u = 0; u < std::ssize(place.indices); ++u)
    if (!std::ranges::binary_search(keep, u))
      for (const auto i : place.indices[static_cast<std::size_t>(u)]) goes[static_cast<std::size_t>(i)] = 1;
  for (std::int64_t e = 0; e < std::ssize(values); ++e)
    if (goes[static_cast<std::size_t>(e / behind % shape[place.dim])]) values[static_cast<std::size_t>(e)] = 0;
}

double norm_of_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - b[i], 2);
    norm += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference) / std::max(std::sqrt(norm), 1e-2);
}

using Inputs = std::map<std::string, Array>;

void fill(Context& context, const Executor& executor, const Inputs& inputs) {
  for (const auto& [name, values] : inputs) set_input(context, executor, name, values);
}

std::map<std::string, std::vector<float>> outputs_of(Context& context, const Graph& graph, Parameters& parameters,
                                                     const Inputs& inputs) {
  Executor executor(graph, parameters, {.batch = samples, .training = false});
  fill(context, executor, inputs);
  executor.forward({});
  std::map<std::string, std::vector<float>> all;
  for (const auto& output : graph.outputs()) {
    const Array values = get_output(context, executor, output.first);
    all[output.first] = {values.data.begin(), values.data.end()};
  }
  return all;
}

double train_step(Context& context, const Graph& graph, Parameters& parameters, const Inputs& inputs) {
  Sgd sgd;
  sgd.momentum = 0.9f;
  Executor executor(graph, parameters, {.batch = samples, .optimizer = &sgd});
  fill(context, executor, inputs);
  executor.forward({.inverse_samples = 1.0f / samples, .learning_rate = 0.05f});
  executor.backward();
  executor.update();
  return executor.loss();
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

std::vector<std::vector<std::int64_t>> random_units(const std::vector<UnitGroup>& groups, std::uint64_t seed) {
  std::vector<std::vector<std::int64_t>> keep;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    auto& units = keep.emplace_back();
    const auto number = [&](std::int64_t i) {
      return philox::uniform(philox::Key{seed, 7, g}, static_cast<std::uint64_t>(i));
    };
    for (std::int64_t u = 0; u < groups[g].units; ++u)
      if (groups[g].fixed || number(u) < 0.6f) units.push_back(u);
    if (std::ssize(units) < 2) {
      units.clear();
      for (std::int64_t u = 0; u < std::min<std::int64_t>(groups[g].units, 2); ++u) units.push_back(u);
    }
  }
  return keep;
}

void expect_same_without_units(Context& context, const Graph& graph, const std::vector<std::vector<std::int64_t>>& keep,
                               std::uint64_t seed, double tolerance) {
  const auto groups = unit_groups(graph);
  const NetworkChange change = keep_units(graph, groups, keep);
  Parameters old(graph, context, seed);
  const Inputs inputs = random_inputs(graph, seed);
  Inputs fewer = inputs;
  for (Parameter& p : old.all()) {  // biases and statistics, too
    const std::int64_t inputs_of_unit = p.shape.elements() / p.shape[0];
    const auto number = static_cast<float>(inputs_of_unit);
    auto values = initial_values(Init::uniform(p.shape.rank() > 1 ? 1.5f / std::sqrt(number) : 0.5f),
                                 fmt::format("{}{}", p.name, seed), p.shape, 1);
    if (p.name.ends_with("running_variance") || p.name.ends_with("scale"))
      for (float& v : values) v += 1;
    old.set(p, values);
  }
  train_step(context, graph, old, random_inputs(graph, seed + 1000));  // for moments that are not zero
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (const UnitPlace& place : groups[g].places) {
      if (!place.readers.empty()) {
        Parameter& p = old.at(place.parameter);
        auto values = old.get(p);
        clear(values, p.shape, place, keep[g]);
        old.set(p, values);
      }
      const auto* node = place.node < 0 ? nullptr : &graph.nodes()[static_cast<std::size_t>(place.node)];
      if (!node || !node->is_state) continue;
      std::vector<std::int64_t> indices;
      for (const auto u : keep[g]) indices.push_back(place.indices[static_cast<std::size_t>(u)].at(0));
      fewer[node->name] = taken(inputs.at(node->name), place.dim, indices);
    }
  Parameters small = old.remap(change.graph, change.maps);
  const auto want = outputs_of(context, graph, old, inputs), got = outputs_of(context, change.graph, small, fewer);
  for (const auto& [name, values] : want) {
    ASSERT_EQ(got.at(name).size(), values.size()) << name;
    EXPECT_LT(norm_of_difference(got.at(name), values), tolerance) << name;
  }
  const double want_loss = train_step(context, graph, old, inputs);
  EXPECT_NEAR(train_step(context, change.graph, small, fewer), want_loss, tolerance * std::abs(want_loss));
  const Parameters kept = old.remap(change.graph, change.maps);
  for (const Parameter& p : small.all()) {
    const Parameter& w = *kept.find(p.name);
    EXPECT_LT(norm_of_difference(small.get(p), kept.get(w)), tolerance) << p.name;
    if (p.kind != ParameterKind::trained) continue;
    EXPECT_LT(norm_of_difference(small.get(p, 0), w.start_moments.at(0)), tolerance) << "momentum of " << p.name;
  }
}

}  // namespace keelson::testing
