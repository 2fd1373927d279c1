#include "nets/minerva/minerva.hpp"

#include <gtest/gtest.h>

#include "engine/base/error.hpp"
#include "engine/graph/topology.hpp"
#include "tests/nets/support.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/data_files.hpp"
#include "tests/support/networks.hpp"

namespace keelson::testing {
namespace {

Shape shape_of(const Graph& g, const std::string& name) {
  for (const auto& node : g.nodes())
    if (node.name == name) return node.shape.shape;
  ADD_FAILURE() << "there is no node " << name;
  return {};
}

TEST(Minerva, EpsilonHasThePublishedParameters) {
  EXPECT_EQ(nets::minerva_epsilon().parameter_count(), 1'690'367);
  EXPECT_EQ(nets::minerva_epsilon({.channels = 2, .classes = 11}).parameter_count(), 1'686'071);
}

TEST(Minerva, EpsilonHasThePublishedShapes) {
  const Graph g = nets::minerva_epsilon();
  EXPECT_EQ(shape_of(g, "x"), (Shape{1, 1, 127, 50}));
  EXPECT_EQ(shape_of(g, "u"), (Shape{1, 1, 127, 25}));
  EXPECT_EQ(shape_of(g, "v"), (Shape{1, 1, 127, 25}));
  EXPECT_EQ(shape_of(g, "x_pool1"), (Shape{1, 12, 60, 48}));
  EXPECT_EQ(shape_of(g, "x_pool2"), (Shape{1, 20, 27, 46}));
  EXPECT_EQ(shape_of(g, "x_pool3"), (Shape{1, 28, 11, 44}));
  EXPECT_EQ(shape_of(g, "x_pool4"), (Shape{1, 36, 3, 42}));
  EXPECT_EQ(shape_of(g, "v_pool4"), (Shape{1, 36, 3, 15}));
  EXPECT_EQ(shape_of(g, "views"), (Shape{1, 588}));
  EXPECT_EQ(shape_of(g, "output"), (Shape{1, 67}));
}

TEST(Minerva, EvolvedHasThePublishedParametersAndShapes) {
  const Graph g = nets::minerva_evolved();
  EXPECT_EQ(g.parameter_count(), 2'858'397);
  EXPECT_EQ(shape_of(g, "x_pool"), (Shape{1, 28, 22, 48}));
  EXPECT_EQ(shape_of(g, "u_pool"), (Shape{1, 28, 22, 1}));
  EXPECT_EQ(shape_of(g, "views"), (Shape{1, 30'800}));
  EXPECT_EQ(shape_of(g, "output"), (Shape{1, 173}));
}

TEST(Minerva, RefusesImagesThatAreTooSmall) {
  const auto message = [](const nets::MinervaOptions& o) {
    return message_of<InputError>([&] { nets::minerva_epsilon(o); });
  };
  EXPECT_NE(message({.planes = 51}).find("51 planes in the view x"), std::string::npos);
  EXPECT_NE(message({.strips = 107}).find("expected at least 108 and 22"), std::string::npos);
  EXPECT_NE(message({.planes = 20}).find("expected at least 108 and 22"), std::string::npos);
  EXPECT_NO_THROW(nets::minerva_epsilon({.strips = 108, .planes = 22}));
  EXPECT_THROW(nets::minerva_evolved({.planes = 92}), InputError);
  EXPECT_THROW(nets::minerva_evolved({.strips = 41, .planes = 94}), InputError);
  EXPECT_NO_THROW(nets::minerva_evolved({.strips = 42, .planes = 94}));
  EXPECT_THROW(nets::minerva_epsilon({.classes = 1}), InputError);
}

ops::ConvParams conv_of(std::int64_t strips, std::int64_t planes, std::int64_t stride = 1) {
  return {.kernel = {strips, planes},
          .stride = {stride, 1},
          .dilation = {1, 1},
          .pad_begin = {0, 0},
          .pad_end = {0, 0},
          .groups = 1,
          .bias = true,
          .activation = {}};
}

constexpr ops::EltwiseParams relu_of_view{ops::EltwiseKind::relu};
const ops::PoolParams two_strips{ops::PoolKind::max, {2, 1}, {2, 1}, {0, 0}, {0, 0}, false};

std::map<std::string, Array> events_of(const nets::MinervaOptions& o) {
  std::map<std::string, Array> inputs;
  for (const char* view : {"x", "u", "v"})
    inputs[view] = oracle::random_uniform({2, o.channels, o.strips, *view == 'x' ? o.planes : o.planes / 2}, view);
  inputs["y"] = Array({2}, {1, 3});
  return inputs;
}

const Array counts_of_two({2}, 1.0);

TEST(Minerva, AStepOfEpsilonAgreesWithTheOracle) {
  const nets::MinervaOptions o{.strips = 108, .planes = 22, .channels = 2, .classes = 5, .width_multiplier = 0.2};
  const auto inputs = events_of(o);
  expect_step(nets::minerva_epsilon(o), inputs, [&](oracle::Tape& t, const ops::StepParams& now) {
    std::vector<int> views;
    for (const std::string view : {"x", "u", "v"}) {
      int h = t.input(inputs.at(view));
      const ops::ConvParams convs[] = {conv_of(8, view == "x" ? 3 : 5), conv_of(7, 3), conv_of(6, 3), conv_of(6, 3)};
      for (int i = 1; i <= 4; ++i)
        h = t.pool(t.eltwise(t.conv(h, fmt::format("{}_conv{}", view, i), convs[i - 1]), relu_of_view), two_strips);
      h = t.eltwise(t.dense(t.flatten(h), view + "_dense"), relu_of_view);
      views.push_back(t.dropout(h, view + "_dropout", o.dropout, now));
    }
    int h = t.dropout(t.concat(views, 1), "views_dropout", o.dropout, now);
    h = t.dense(t.eltwise(t.dense(h, "dense"), relu_of_view), "output");
    return t.loss(h, inputs.at("y"), counts_of_two, {ops::LossKind::cross_entropy}, now);
  });
}

TEST(Minerva, AStepOfTheEvolvedNetworkAgreesWithTheOracle) {
  const nets::MinervaOptions o{.strips = 46, .planes = 94, .channels = 2, .classes = 5, .width_multiplier = 0.4};
  const auto inputs = events_of(o);
  expect_step(nets::minerva_evolved(o), inputs, [&](oracle::Tape& t, const ops::StepParams& now) {
    std::vector<int> views;
    for (const std::string view : {"x", "u", "v"}) {
      int h = t.eltwise(t.conv(t.input(inputs.at(view)), view + "_conv1", conv_of(8, 3, 2)), relu_of_view);
      h = t.dropout(h, view + "_dropout", o.dropout, now);
      h = t.eltwise(t.conv(h, view + "_conv2", conv_of(6, 7)), relu_of_view);
      h = t.eltwise(t.conv(h, view + "_conv3", conv_of(12, 39)), relu_of_view);
      views.push_back(t.flatten(t.pool(h, two_strips)));
    }
    int h = t.concat(views, 1);
    for (const std::string i : {"1", "2"})
      h = t.dropout(t.eltwise(t.dense(h, "dense" + i), relu_of_view), "dropout" + i, o.dropout, now);
    return t.loss(t.dense(h, "output"), inputs.at("y"), counts_of_two, {ops::LossKind::cross_entropy}, now);
  });
}

/// Each view has a part in the prediction.
TEST(Minerva, ReadsAllViews) {
  const Graph g = nets::minerva_epsilon({.strips = 108, .planes = 22, .classes = 5, .width_multiplier = 0.3});
  Context& ctx = context(network_contexts().back());
  Parameters parameters(g, ctx, 1);
  Executor executor(g, parameters, {.batch = 1, .training = false});
  const auto predicted = [&](const std::string& changed) {
    for (const char* view : {"x", "u", "v"}) {
      Shape s = shape_of(g, view);
      set_input(ctx, executor, view, oracle::random_uniform(s, changed == view ? "other" : view, 0, 1));
    }
    executor.forward({});
    return get_output(ctx, executor, "prediction").data;
  };
  const auto before = predicted("");
  for (const char* view : {"x", "u", "v"}) EXPECT_NE(predicted(view), before) << view;
  EXPECT_EQ(predicted(""), before);
}

}  // namespace
}  // namespace keelson::testing
