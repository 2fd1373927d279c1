#include "tests/layers/layer_gradients.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/layers/layers.hpp"
#include "tests/support/environment_variable.hpp"
#include "tests/support/networks.hpp"

namespace keelson::testing {
namespace {

constexpr std::int64_t batch = 3, counted = 2;  // samples, and those that are no padding

/// source -> layer -> loss. `trained_source`: the source is the weights of a dense layer, else it is a graph input.
Graph network_of(const LayerCase& c, bool trained_source) {
  Graph g;
  Var x;
  if (trained_source)
    x = reshape(dense(g.input("one_hot", {batch}), {.features = c.sample.elements(), .bias = false}, "source"),
                c.sample);
  else
    x = g.input("x", c.sample, c.dtype);
  const Var result = c.layer(x);
  if (g.loss() >= 0) return g;
  const Var row = flatten(result);
  mse(row, g.input("target", {row.shape().shape.elements()}));
  return g;
}

/// Distinct values in (-1, 1), none of which is near 0, where relu has no derivative.
Array distinct(const Shape& shape, const std::string& name) {
  Array a = oracle::random_distinct(shape, name);
  for (double& v : a.data) v = static_cast<float>(v + 1.0 / static_cast<double>(a.elements()));
  return a;
}

class Network {
 public:
  Network(Context& context, const LayerCase& c, bool trained_source)
      : context_(context), graph_(network_of(c, trained_source)), parameters_(graph_, context, 1) {
    executor_ = std::make_unique<Executor>(graph_, parameters_, PlanOptions{.batch = batch});
    for (const Graph::Node& n : graph_.nodes())
      if (n.srcs.empty() && !n.is_state) fill(n.name);
    set_input(context, *executor_, "weight", Array({batch}, {1, 1, 0}));
    for (Parameter& p : parameters_.all())
      if (p.kind == ParameterKind::trained) values_[p.name] = distinct(p.shape, p.name);
    for (const auto& [name, value] : values_) write(name, value);
  }

  const std::map<std::string, Array>& values() const { return values_; }
  void write(const std::string& name, const Array& value) {
    parameters_.set(parameters_.at(name), std::vector<float>(value.data.begin(), value.data.end()));
  }
  double loss() {
    executor_->forward({.seed = 3, .inverse_samples = 1.0f / counted});
    executor_->backward();
    return executor_->loss();
  }
  Array gradient(const std::string& name) const {
    const auto g = executor_->gradient(name);
    return {values_.at(name).shape, std::vector<double>(g.begin(), g.end())};
  }

 private:
  void fill(const std::string& name) {
    const Tensor t = executor_->input(name);
    Array a = t.dtype() == DType::s32 ? oracle::random_integers(t.shape(), name, 0, 2) : distinct(t.shape(), name);
    if (name == "one_hot")
      for (std::int64_t i = 0; i < a.elements(); ++i) a[i] = i % (batch + 1) == 0 ? 1 : 0;
    set_input(context_, *executor_, name, a);
  }

  Context& context_;
  Graph graph_;
  Parameters parameters_;
  std::unique_ptr<Executor> executor_;
  std::map<std::string, Array> values_;
};

double largest(const Array& a) {
  double most = 0;
  for (const double v : a.data) most = std::max(most, std::abs(v));
  return most;
}

void compare(const std::string& what, const Array& got, const Array& want) {
  const double tolerance = 2e-3 * largest(want) + 2e-5;  // of differences of losses whose terms are f32
  std::int64_t worst = 0;
  for (std::int64_t i = 0; i < got.elements(); ++i)
    if (!(std::abs(got[i] - want[i]) <= std::abs(got[worst] - want[worst]))) worst = i;
  EXPECT_LE(std::abs(got[worst] - want[worst]), tolerance)
      << what << ": the gradient of element " << worst << " is " << got[worst] << ", but differences of the loss give "
      << want[worst];
}

}  // namespace

void expect_right_gradients(Context& context, const LayerCase& c) {
  // Smaller than half the distance of two values, so that no maximum and no sign changes.
  constexpr double h = 1.0 / 256;
  const EnvironmentVariable check("KEELSON_CHECK", "1");
  for (const bool trained_source : {true, false}) {
    if (trained_source && c.dtype != DType::f32) continue;
    Network network(context, c, trained_source);
    network.loss();
    std::map<std::string, Array> gradients;
    for (const auto& [name, value] : network.values()) gradients[name] = network.gradient(name);
    for (const auto& [name, value] : network.values()) {
      const auto loss_at = [&](const Array& moved) {
        network.write(name, moved);
        return network.loss();
      };
      const Array want = oracle::differences(loss_at, value, h);
      network.write(name, value);
      EXPECT_GT(largest(want), 1e-3) << c.name << ": the loss does not depend on " << name << ", so nothing is tested";
      compare(c.name + ": " + name, gradients.at(name), want);
    }
  }
}

}  // namespace keelson::testing
