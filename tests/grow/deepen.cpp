#include "engine/grow/deepen.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/grow/widen.hpp"
#include "engine/layers/layers.hpp"
#include "nets/registry.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/data_files.hpp"
#include "tests/support/network_runs.hpp"
#include "tests/support/random_graph.hpp"

/// Networks with more layers that compute what they did before.
namespace keelson::testing {
namespace {

std::vector<std::string> names_of(const std::vector<RepeatableLayer>& layers) {
  std::vector<std::string> names;
  for (const RepeatableLayer& layer : layers) names.push_back(layer.name);
  return names;
}

/// Evaluation, and the loss of a training step.
void expect_same_results(Context& context, const Graph& a, Parameters& of_a, const Graph& b, Parameters& of_b,
                         const NetworkInputs& inputs) {
  const auto want = outputs_of(context, a, of_a, inputs), got = outputs_of(context, b, of_b, inputs);
  for (const auto& [name, values] : want) {
    EXPECT_EQ(got.at(name).size(), values.size()) << name;
    EXPECT_LT(norm_of_difference(got.at(name), values), 1e-6) << name;
  }
  const double loss = train_step(context, a, of_a, inputs);
  EXPECT_NEAR(train_step(context, b, of_b, inputs), loss, 2e-6 * std::abs(loss));
}

/// Adds copies to all layers, one after the other, and returns how many layers there are.
std::size_t expect_same_when_deeper(Context& context, const Graph& graph, std::uint64_t seed, int copies = 2) {
  const auto layers = names_of(repeatable_layers(graph));
  if (layers.empty()) return 0;
  Parameters before(graph, context, seed);
  set_random_values(before, seed);
  NetworkChange change = deepen(graph, layers);
  Parameters deeper = changed_parameters(before, change, {});
  for (int more = 1; more < copies; ++more) {
    NetworkChange next = deepen(change.graph, layers);
    deeper = changed_parameters(deeper, next, {});
    change = std::move(next);
  }
  const Topology topology(change.graph);
  for (const auto& [layer, count] : copies_of(topology)) EXPECT_EQ(count, copies) << layer;
  EXPECT_EQ(difference(Topology(with_topology(graph, topology)), topology), "");
  EXPECT_EQ(difference(Topology(with_topology(change.graph, Topology(graph))), Topology(graph)), "");
  EXPECT_EQ(names_of(repeatable_layers(change.graph)), layers);
  expect_same_results(context, graph, before, change.graph, deeper, random_inputs(graph, seed));
  return layers.size();
}

TEST(Deepen, RandomNetworksStayTheSame) {
  for (const auto& where : network_contexts()) {
    Context& ctx = context(where);
    ctx.require_exact_convolutions(true);
    std::size_t deeper = 0;
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      SCOPED_TRACE(fmt::format("{}, network {}", where, seed));
      const Graph g = random_graph(seed);
      deeper += expect_same_when_deeper(ctx, g, seed);
      if (::testing::Test::HasFailure()) {
        std::cout << g.summary();
        break;
      }
    }
    EXPECT_GT(deeper, 12) << "layers that copies follow";
    ctx.require_exact_convolutions(false);
  }
}

TEST(Deepen, NetworksStayTheSame) {
  Context& ctx = context(network_contexts().back());
  ctx.require_exact_convolutions(true);
  for (const auto& net : nets::registered_networks()) {
    if (net.name == "paper") continue;  // the kinds of layers of mlperf, on images that take half a minute
    SCOPED_TRACE(net.name);
    const Graph g = without_dropout(net.make(net.tiny_settings, net.tiny_sample));
    EXPECT_GT(expect_same_when_deeper(ctx, g, 1, 1), 0);
  }
  ctx.require_exact_convolutions(false);
}

using Activation = Var (*)(Var);

/// Convolution with unequal strides, normalization, a residual sum, a branch that is concatenated, two dense layers.
Graph network_of_all(const Shape& sample, Activation act, bool norm) {
  Graph g;
  const auto normed = [&](Var v, const std::string& name) { return norm ? batch_norm(v, {}, name) : v; };
  const Var x = g.input("x", sample);
  Shape strides = Shape::filled(sample.rank() - 1, 2);
  strides[0] = 1;
  const Var a = act(normed(conv(x, {.filters = 6, .strides = strides}, "conv1"), "norm1"));
  const Var b = normed(conv(a, {.filters = 6, .dilation = 2, .groups = 2}, "conv2"), "norm2");
  const Var c = act(add({a, b}, "sum"));
  const Var d = act(conv(c, {.filters = 4, .size = 2, .padding = Padding::valid}, "conv3"));
  const Var e = act(conv(c, {.filters = 2, .size = 2, .padding = Padding::valid, .bias = false}, "conv4"));
  const Var f = act(dense(flatten(concat({d, e})), 5, "dense1"));
  const Var out = dense(act(dense(f, 4, "dense2")), 2, "out");
  g.set_output("prediction", out);
  mse(out, g.input("y", {2}));
  return g;
}

Var with_leaky_relu(Var x) { return leaky_relu(x, 0.3f); }
Var with_relu(Var x) { return relu(x); }
Var with_tanh(Var x) { return tanh(x); }
Var with_sigmoid(Var x) { return sigmoid(x); }

TEST(Deepen, EveryLayerActivationAndNormalizationStaysTheSame) {
  Context& ctx = context(network_contexts().back());
  ctx.require_exact_convolutions(true);
  for (const Shape& sample : {Shape{2, 9, 8}, Shape{2, 6, 7, 6}})
    for (const Activation act : {&with_relu, &with_leaky_relu, &with_tanh, &with_sigmoid})
      for (const bool norm : {false, true}) {
        SCOPED_TRACE(fmt::format("{}, normalized {}", to_string(sample), norm));
        EXPECT_EQ(expect_same_when_deeper(ctx, network_of_all(sample, act, norm), 5), 6U);
      }
  ctx.require_exact_convolutions(false);
}

TEST(Deepen, FormsOfCopies) {
  const auto forms = [](Activation act, bool norm) {
    std::map<std::string, CopyForm> all;
    for (const RepeatableLayer& layer : repeatable_layers(network_of_all({2, 9, 8}, act, norm)))
      all[layer.name] = layer.form;
    return all;
  };
  for (const auto& [layer, form] : forms(with_relu, false)) EXPECT_EQ(form, CopyForm::identity) << layer;
  for (const auto& [layer, form] : forms(with_leaky_relu, false)) EXPECT_EQ(form, CopyForm::residual) << layer;
  const auto mixed = forms(with_relu, true);
  for (const char* layer : {"conv1", "conv2"}) EXPECT_EQ(mixed.at(layer), CopyForm::residual) << layer;
  for (const char* layer : {"conv3", "conv4", "dense1", "dense2"})
    EXPECT_EQ(mixed.at(layer), CopyForm::identity) << layer;
  EXPECT_FALSE(mixed.contains("out")) << "it makes the output";
}

/// The weights that begin as identity or zero move, and with them the others of a residual copy.
TEST(Deepen, NewLayersLearn) {
  Context& ctx = context(network_contexts().back());
  for (const Activation act : {&with_relu, &with_leaky_relu}) {
    const Graph graph = network_of_all({2, 9, 8}, act, true);
    Parameters before(graph, ctx, 2);
    const auto layers = names_of(repeatable_layers(graph));
    const NetworkChange change = deepen(graph, layers);
    Parameters deeper = changed_parameters(before, change, {});
    std::map<std::string, std::vector<float>> first;
    for (const Parameter& p : deeper.all()) first[p.name] = deeper.get(p);
    for (int step = 0; step < 3; ++step) train_step(ctx, change.graph, deeper, random_inputs(graph, 1));
    for (const std::string& layer : layers) {
      const std::string gaining = gaining_weights(change.graph, layer);
      EXPECT_NE(deeper.get(deeper.at(gaining)), first.at(gaining)) << gaining;
      const std::string in = layer + "+1.in/weights";
      if (deeper.find(in)) {
        EXPECT_NE(deeper.get(deeper.at(in)), first.at(in)) << in;
      }
    }
  }
}

/// Moments of new layers are zero, those of others stay.
TEST(Deepen, MomentsStay) {
  Context& ctx = context(network_contexts().back());
  const Graph graph = network_of_all({2, 9, 8}, with_relu, false);
  Parameters before(graph, ctx, 2);
  train_step(ctx, graph, before, random_inputs(graph, 1));
  const NetworkChange change = deepen(graph, {"conv1", "dense1"});
  const Parameters deeper = changed_parameters(before, change, {"momentum_buffer"});
  for (const Parameter& p : deeper.all()) {
    const auto moment = deeper.get(p, 0);
    if (const Parameter* old = before.find(p.name))
      EXPECT_EQ(moment, before.get(*old, 0)) << p.name;
    else
      EXPECT_TRUE(std::ranges::all_of(moment, [](float v) { return v == 0; })) << p.name;
  }
}

/// Units and copies in any order: a checkpoint's topology is enough to make the network again.
TEST(Deepen, CopiesBecomeWiderToo) {
  Context& ctx = context(network_contexts().back());
  ctx.require_exact_convolutions(true);
  for (const Activation act : {&with_relu, &with_leaky_relu}) {
    const Graph graph = network_of_all({2, 9, 8}, act, true);
    Parameters before(graph, ctx, 4);
    set_random_values(before, 4);
    const NetworkInputs inputs = random_inputs(graph, 3);
    const NetworkChange deep = deepen(graph, {"conv1", "conv3", "dense2"});
    Parameters deeper = changed_parameters(before, deep, {});
    const auto groups = unit_groups(deep.graph);
    std::vector<Widening> widening;
    for (const UnitGroup& g : groups) widening.push_back({g.fixed ? g.units : 2 * g.units});
    const NetworkChange wide = widen_units(deep.graph, groups, widening, deeper);
    Parameters wider = changed_parameters(deeper, wide, {});
    const NetworkChange more = deepen(wide.graph, {"conv1", "conv4"});
    Parameters last = changed_parameters(wider, more, {});
    const Topology topology(more.graph);
    EXPECT_EQ(copies_of(topology), (LayerCopies{{"conv1", 2}, {"conv3", 1}, {"conv4", 1}, {"dense2", 1}}));
    EXPECT_EQ(difference(Topology(with_topology(graph, topology)), topology), "");
    EXPECT_EQ(difference(Topology(with_topology(more.graph, Topology(wide.graph))), Topology(wide.graph)), "");
    const auto want = outputs_of(ctx, graph, before, inputs), got = outputs_of(ctx, more.graph, last, inputs);
    EXPECT_LT(norm_of_difference(got.at("prediction"), want.at("prediction")), 1e-5);
  }
  ctx.require_exact_convolutions(false);
}

TEST(Deepen, Refusals) {
  const Graph graph = network_of_all({2, 9, 8}, with_relu, false);
  EXPECT_EQ(message_of<InputError>([&] { with_copies(graph, {{"out", 1}}); }),
            "no copies can follow the layer 'out': expected a convolution or a dense layer with an activation: conv1, "
            "conv2, conv3, conv4, dense1, dense2");
  EXPECT_THROW(with_copies(graph, {{"conv1", -1}}), InputError);
  EXPECT_EQ(copied_layer("conv3+2.act"), "conv3");
  for (const char* name : {"conv3", "a+b", "+1", "conv3+0", "conv3+2.x"}) EXPECT_EQ(copied_layer(name), name);
}

}  // namespace
}  // namespace keelson::testing
