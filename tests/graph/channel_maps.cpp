#include "engine/graph/channel_maps.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/execute/executor.hpp"
#include "engine/layers/layers.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/data_files.hpp"
#include "tests/support/networks.hpp"

/// Maps that follow from the channels of some nodes.
namespace keelson::testing {
namespace {

using Channels = std::map<std::string, std::vector<std::int64_t>>;
using Widths = std::map<std::string, std::int64_t>;

/// A residual block, a depthwise convolution, two branches, and a dense layer behind all pixels.
Graph branches(const Widths& w) {
  Graph g;
  const Var x = g.input("x", {3, 6, 6}), y = g.input("y", {2});
  const Var a = leaky_relu(conv(x, {.filters = w.at("a")}, "a"), 0.1f);
  const Var sum = relu(batch_norm(conv(a, {.filters = w.at("a")}, "b"), {}, "norm") + a);
  const Var depthwise = conv(sum, {.filters = w.at("a"), .groups = w.at("a")}, "depthwise");
  const Var c = tanh(conv(sum, {.filters = w.at("c"), .bias = false}, "c"));
  const Var both = concat({max_pool(depthwise, 2), average_pool(dropout(c, 0.1f), 2)});
  const Var h = relu(dense(flatten(both), w.at("h"), "h"));
  const Var out = dense(h, 2, "out");
  g.set_output("prediction", out);
  mse(out, y);
  return g;
}

/// Several rows per sample, each of two pixels, as in the CosmoFlow paper's network.
Graph rows(const Widths& w) {
  Graph g;
  const Var x = g.input("x", {2, 4, 4}), y = g.input("y", {2});
  const Var a = reshape(relu(conv(x, {.filters = w.at("a")}, "a")), {w.at("a"), 16, 1});
  const Var out = dense(flatten(a, ElementOrder::channels_last, 2 * w.at("a")), 2, "out");
  g.set_output("prediction", out);
  mae(out, y);
  return g;
}

struct Case {
  std::string name;
  Graph (*make)(const Widths&);
  Shape input;
  Widths widths;
  Channels keep;
};

const Case cases[] = {
    {"Branches",
     branches,
     {2, 3, 6, 6},
     {{"a", 5}, {"c", 4}, {"h", 6}},
     {{"a", {4, 1, 2}}, {"b", {4, 1, 2}}, {"c", {1, 3}}, {"h", {0, 1, 4, 5}}}},
    {"Rows", rows, {2, 2, 4, 4}, {{"a", 4}}, {{"a", {0, 3, 2}}}},
};

std::vector<float> prediction(const Graph& g, Parameters& parameters, const Shape& input) {
  Executor executor(g, parameters, {.batch = input[0], .training = false});
  set_input(parameters.context(), executor, "x", oracle::random_uniform(input, "x"));
  executor.forward({});
  const auto out = get_output(parameters.context(), executor, "prediction");
  return {out.data.begin(), out.data.end()};
}

class ChannelMapsTest : public ::testing::TestWithParam<int> {};

/// What stays computes what the old network computes where the channels that go are zero.
TEST_P(ChannelMapsTest, LeaveTheFunctionOfTheMaskedNetwork) {
  const Case& c = cases[GetParam()];
  for (const auto& where : network_contexts()) {
    SCOPED_TRACE(where);
    const Graph old_net = c.make(c.widths);
    Widths fewer = c.widths;
    for (auto& [name, width] : fewer) width = static_cast<std::int64_t>(c.keep.at(name).size());
    const Graph new_net = c.make(fewer);
    Parameters old(old_net, context(where), 3);
    prediction(old_net, old, c.input);
    for (Parameter& p : old.all()) {  // biases and statistics, too
      auto values = initial_values(Init::uniform(0.5f), "test" + p.name, p.shape, 1);
      if (p.name == "norm/running_variance")
        for (float& v : values) v += 1;
      old.set(p, values);
    }
    const auto maps = channel_maps(old_net, c.keep);
    Parameters kept = old.remap(new_net, maps);
    for (Parameter& p : old.all()) {
      const auto map = maps.find(p.name);
      if (map == maps.end() || !map->second.indices[0]) continue;
      const auto& rows_kept = *map->second.indices[0];
      auto values = old.get(p);
      const auto row = values.size() / static_cast<std::size_t>(p.shape[0]);
      for (std::size_t i = 0; i < values.size(); ++i)
        if (std::ranges::find(rows_kept, static_cast<std::int64_t>(i / row)) == rows_kept.end()) values[i] = 0;
      old.set(p, values);
    }
    const auto want = prediction(old_net, old, c.input), got = prediction(new_net, kept, c.input);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, ChannelMapsTest, ::testing::Values(0, 1),
                         [](const auto& info) { return cases[info.param].name; });

TEST(ChannelMaps, ListOnlyWhatChanges) {
  const Graph g = rows({{"a", 4}});
  EXPECT_TRUE(channel_maps(g, {}).empty());
  EXPECT_TRUE(channel_maps(g, {{"a", {0, 1, 2, 3}}}).empty());
  const auto maps = channel_maps(g, {{"a", {3, -1}}});
  ASSERT_EQ(maps.size(), 3u);
  EXPECT_EQ(maps.at("a/weights").indices[0], (std::vector<std::int64_t>{3, -1}));
  EXPECT_EQ(maps.at("out/weights").indices[0], std::nullopt);
  EXPECT_EQ(maps.at("out/weights").indices[1], (std::vector<std::int64_t>{3, -1, 7, -1}));
}

/// An embedding and the output layer that shares its table read and make the same features.
TEST(ChannelMaps, FollowSharedParameters) {
  const auto make = [](std::int64_t features, bool between) {
    Graph g;
    const Var x = g.input("x", {3}, DType::s32), y = g.input("y", {3}, DType::s32);
    Var h = embedding(x, {12, features}, "embedding");
    if (between) h = dense(h, features, "between");
    cross_entropy(dense(h, {.features = 12, .weights_of = "embedding"}, "output"), y);
    return g;
  };
  const auto maps = channel_maps(make(6, false), {{"embedding", {5, 0}}});
  ASSERT_EQ(maps.size(), 1u);
  EXPECT_EQ(maps.at("embedding/weights").indices, (std::vector<IndexMap>{std::nullopt, {{5, 0}}}));
  Parameters parameters(make(6, false), context(network_contexts().back()), 1);
  EXPECT_EQ(parameters.remap(make(2, false), maps).count(), 12 * 2 + 12);

  const auto text = message_of<InputError>([&] { channel_maps(make(6, true), {{"embedding", {5, 0}}}); });
  EXPECT_EQ(text, "output: it shares embedding/weights with another node, whose channels change in another way");
  EXPECT_EQ(channel_maps(make(6, true), {{"embedding", {5, 0}}, {"between", {5, 0}}}).size(), 3u);
}

TEST(ChannelMaps, RefuseWhatTheyDoNotKnow) {
  const auto refusal = [](const Graph& g, const Channels& channels) {
    return message_of<InputError>([&] { channel_maps(g, channels); });
  };
  const Graph g = branches(cases[0].widths);
  EXPECT_NE(refusal(g, {{"conv1", {0}}}).find("'conv1', but the network has no such node"), std::string::npos);
  EXPECT_NE(refusal(g, {{"a", {0, 1}}}).find("add1: its sources keep different channels"), std::string::npos);
  EXPECT_NE(refusal(g, {{"depthwise", {0}}}).find("depthwise: it has no weights that make channels"),
            std::string::npos);
  EXPECT_NE(refusal(g, {{"x", {0}}}).find("x: it is not known how a layer of kind input passes channels on"),
            std::string::npos);
  EXPECT_NE(refusal(g, {{"out", {0}}}).find("a layer of kind mse passes channels on"), std::string::npos);
  EXPECT_NE(refusal(g, {{"c", {4}}}).find("c: channel 4: expected 0 to 3"), std::string::npos);
  EXPECT_NE(refusal(g, {{"c", {}}}).find("c: no channel of 4 is left"), std::string::npos);
  Graph recurrent;
  const Var x = recurrent.input("x", {5, 3}), y = recurrent.input("y", {2});
  mse(dense(flatten(lstm(dense(reshape(x, {15}), 15, "d"), {.hidden = 4}, "lstm")), 2), y);
  const std::vector<std::int64_t> one_of_each_gate{1, 5, 9, 13};
  EXPECT_NE(refusal(recurrent, {{"lstm1_input", {0, 1, 2, 3}}}).find("lstm1: it reads several indices of its source"),
            std::string::npos);
  EXPECT_NE(refusal(recurrent, {{"lstm1_input", one_of_each_gate}}).find("lstm1: its sources keep different channels"),
            std::string::npos);
  EXPECT_EQ(channel_maps(recurrent, {{"lstm1_input", one_of_each_gate}, {"lstm1_state", {1}}}).size(), 4u);
  EXPECT_EQ(channel_maps(recurrent, {{"d", {0, 1, 2}}}).size(), 3u) << "lstm1_input is a dense layer";
  Graph mixing;
  const Var u = conv(mixing.input("u", {2, 4, 4}), {.filters = 4}, "conv");
  reshape(u, {2, 8, 4});
  EXPECT_NE(refusal(mixing, {{"conv", {0, 1}}}).find("a layer of kind reshape passes channels on"), std::string::npos);
}

}  // namespace
}  // namespace keelson::testing
