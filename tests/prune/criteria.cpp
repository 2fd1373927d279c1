#include "engine/prune/criteria.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/execute/executor.hpp"
#include "engine/layers/layers.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/networks.hpp"

/// Which units can go, by numbers computed by hand.
namespace keelson::testing {
namespace {

using Reason = UnitRemoval::Reason;

/// Two inputs, four hidden units, two outputs.
Graph four_units(Var (*activation)(Var, const std::string&), bool bias = true) {
  Graph g;
  const Var h = activation(dense(g.input("x", {2}), 4, "a"), "h");
  const Var out = dense(h, {.features = 2, .bias = bias}, "out");
  g.set_output("prediction", out);
  mse(out, g.input("y", {2}));
  return g;
}

/// Unit 1 is 2.5 times unit 0, unit 2 never positive, unit 3 always 3.
ParameterValues four_values() {
  return {{"a/weights", {1, 0, 2.5f, 0, 0, 0, 0, 0}},
          {"a/bias", {0, 0, -1, 3}},
          {"out/weights", {1, 2, 5, 4, 0, -1, 5, 1}},
          {"out/bias", {0.5f, -0.5f}}};
}

/// Of relu(a) for first inputs of mean 1 and variance 2 that are never negative.
ValueStatistics four_statistics(const Graph& g) {
  const auto h = std::ranges::find(g.nodes(), "h", &Graph::Node::name) - g.nodes().begin();
  return {{static_cast<int>(h), {{1, 2.5, 0, 3}, {2, 12.5, 0, 0}, {1, 1, 0, 1}}}};
}

const UnitGroup& hidden(const std::vector<UnitGroup>& groups) {
  return *std::ranges::find(groups, "a", &UnitGroup::name);
}

Var relu_of(Var x, const std::string& name) { return relu(x, name); }
Var tanh_of(Var x, const std::string& name) { return tanh(x, name); }
Var sigmoid_of(Var x, const std::string& name) { return sigmoid(x, name); }

std::string text(const std::vector<UnitRemoval>& removals) {
  std::string all;
  for (const UnitRemoval& r : removals)
    all += fmt::format("{} {}{}; ", r.unit, to_string(r.reason),
                       r.twin < 0 ? "" : fmt::format(" of {} x {:.3g}", r.twin, r.factor));
  return all;
}

TEST(UnitFacts, AreThoseComputedByHand) {
  const Graph g = four_units(relu_of);
  const auto groups = unit_groups(g);
  const auto facts = unit_facts(g, hidden(groups), four_values(), four_statistics(g));
  ASSERT_EQ(facts.size(), 4u);
  EXPECT_EQ(facts[1].incoming, (std::vector<double>{2.5, 0, 0}));
  EXPECT_EQ(facts[3].incoming, (std::vector<double>{0, 0, 3}));
  EXPECT_TRUE(facts[0].active);
  EXPECT_FALSE(facts[2].active);
  EXPECT_DOUBLE_EQ(facts[1].variance, 12.5);
  EXPECT_DOUBLE_EQ(facts[1].outgoing, std::sqrt(5.0));
  EXPECT_DOUBLE_EQ(facts[1].effect, std::sqrt(5 * 12.5));
  EXPECT_DOUBLE_EQ(facts[1].magnitude, std::sqrt(5 * (12.5 + 2.5 * 2.5)));
  EXPECT_DOUBLE_EQ(facts[3].effect, 0);
  EXPECT_DOUBLE_EQ(facts[3].magnitude, std::sqrt(17.0 * 9));
}

TEST(UnitCriteria, FindDeadConstantAndTwinUnitsInThisOrder) {
  const Graph g = four_units(relu_of);
  const auto groups = unit_groups(g);
  const UnitGroup& group = hidden(groups);
  const auto facts = unit_facts(g, group, four_values(), four_statistics(g));
  const auto removed = [&](std::int64_t most) { return text(units_to_remove(g, group, facts, {}, most)); };
  EXPECT_EQ(removed(4), "2 dead; 3 constant; 0 twin of 1 x 0.4; ");
  EXPECT_EQ(removed(2), "2 dead; 3 constant; ");
  EXPECT_EQ(removed(0), "");
}

/// Unit 0 has an effect of sqrt 2, of 16 % of the others' median.
TEST(UnitCriteria, FindUnitsWithoutEffect) {
  const Graph g = four_units(relu_of);
  const auto groups = unit_groups(g);
  auto facts = unit_facts(g, hidden(groups), four_values(), four_statistics(g));
  facts[2].active = true;
  for (const int u : {2, 3})
    facts[static_cast<std::size_t>(u)].variance = facts[static_cast<std::size_t>(u)].effect = 9;
  const UnitCriteria loose{.no_effect = 0.2, .angle = 1}, strict{.no_effect = 0.1, .angle = 0};
  EXPECT_EQ(text(units_to_remove(g, hidden(groups), facts, loose, 1)), "0 no effect; ");
  EXPECT_EQ(text(units_to_remove(g, hidden(groups), facts, strict, 1)), "");
}

/// A layer without bias cannot add the mean of a constant unit.
TEST(UnitCriteria, KeepConstantUnitsWhoseMeanIsNeeded) {
  const Graph g = four_units(relu_of, false);
  const auto groups = unit_groups(g);
  auto values = four_values();
  values.erase("out/bias");
  const auto facts = unit_facts(g, hidden(groups), values, four_statistics(g));
  EXPECT_EQ(text(units_to_remove(g, hidden(groups), facts, {}, 4)), "2 dead; 0 twin of 1 x 0.4; ");
}

/// tanh(-x) = -tanh(x); a factor does not pass through tanh, and no sign through sigmoid.
TEST(UnitCriteria, FindTwinsAsTheActivationAllows) {
  const auto twins = [](Var (*activation)(Var, const std::string&), ParameterValues values) {
    const Graph g = four_units(activation);
    const auto groups = unit_groups(g);
    auto statistics = four_statistics(g);
    for (auto& entry : statistics) entry.second = {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}};
    return text(
        units_to_remove(g, hidden(groups), unit_facts(g, hidden(groups), values, statistics), {.angle = 10}, 4));
  };
  ParameterValues opposite = four_values(), longer = four_values();
  opposite["a/weights"] = {1, 0.5f, -1, -0.5f, 0, 1, 1, -1};
  opposite["a/bias"] = {0.25f, -0.25f, 0, 0};
  EXPECT_EQ(twins(tanh_of, opposite), "0 twin of 1 x -1; ");
  EXPECT_EQ(twins(sigmoid_of, opposite), "");
  longer["a/weights"] = {1, 0.5f, 2, 1, 0, 1, 1, -1};
  longer["a/bias"] = {0, 0, 0, 0};
  EXPECT_EQ(twins(relu_of, longer), "0 twin of 1 x 0.5; ");
  EXPECT_EQ(twins(tanh_of, longer), "");
}

std::vector<float> prediction(Context& ctx, const Graph& g, const ParameterValues& values, const Array& x) {
  Parameters parameters(g, ctx, 1);
  for (Parameter& p : parameters.all()) parameters.set(p, values.at(p.name));
  Executor executor(g, parameters, {.batch = x.shape[0], .training = false});
  set_input(ctx, executor, "x", x);
  executor.forward({});
  const Array out = get_output(ctx, executor, "prediction");
  return {out.data.begin(), out.data.end()};
}

/// The network without a dead unit, a constant unit and a twin computes the same.
TEST(Compensate, LeavesTheFunction) {
  for (const auto& where : network_contexts()) {
    Context& ctx = context(where);
    const Graph g = four_units(relu_of);
    const auto groups = unit_groups(g);
    ParameterValues values = four_values();
    const Array x = oracle::random_uniform({5, 2}, "x", -1, 3);
    const auto want = prediction(ctx, g, values, x);
    const auto statistics = four_statistics(g);
    const auto facts = unit_facts(g, hidden(groups), values, statistics);
    const auto removals = units_to_remove(g, hidden(groups), facts, {}, 4);
    std::map<std::string, Shape> shapes;
    for (const auto& p : g.parameters()) shapes[p.name] = p.shape;
    compensate(hidden(groups), removals, statistics, shapes, values);
    EXPECT_EQ(values.at("out/bias"), (std::vector<float>{12.5f, 2.5f}));
    EXPECT_EQ(values.at("out/weights"), (std::vector<float>{1, 2.4f, 5, 4, 0, -1, 5, 1}));
    std::vector<std::vector<std::int64_t>> keep;
    for (const UnitGroup& group : groups) {
      auto& units = keep.emplace_back();
      for (std::int64_t u = 0; u < group.units; ++u)
        if (group.name != "a" || u == 1) units.push_back(u);
    }
    const NetworkChange change = keep_units(g, groups, keep);
    Parameters whole(g, ctx, 1);
    for (Parameter& p : whole.all()) whole.set(p, values.at(p.name));
    const Parameters small = whole.remap(change.graph, change.maps);
    ParameterValues fewer;
    for (const Parameter& p : small.all()) fewer[p.name] = small.get(p);
    EXPECT_EQ(fewer.at("a/weights"), (std::vector<float>{2.5f, 0}));
    const auto got = prediction(ctx, change.graph, fewer, x);
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5);
  }
}

/// The sum over a kernel of a constant channel is added to the bias; LSTM twins are merged in the recurrent weights.
TEST(Compensate, KnowsKernelsAndRecurrentWeights) {
  Graph g;
  const Var h = conv(g.input("x", {1, 3, 3}), {.filters = 2, .size = 1}, "a");
  const Var c = conv(h, {.filters = 2, .size = 2, .padding = Padding::valid}, "c");
  mse(flatten(c), g.input("y", {8}));
  const auto groups = unit_groups(g);
  std::map<std::string, Shape> shapes;
  for (const auto& p : g.parameters()) shapes[p.name] = p.shape;
  ParameterValues values{{"c/weights", {1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 1, 1, 2, 2, 2, 2}}, {"c/bias", {0, 1}}};
  compensate(hidden(groups), {{.unit = 1, .reason = Reason::constant}}, {{1, {{0, 0.5}, {1, 0}, {1, 1}}}}, shapes,
             values);
  EXPECT_EQ(values.at("c/bias"), (std::vector<float>{13, 5}));

  Graph sequence;
  const Var rows = embedding(sequence.input("x", {2}, DType::s32), {3, 2}, "e");
  const Var out = dense(lstm(rows, {.hidden = 2}, "cell"), 1, "out");
  mse(flatten(out), sequence.input("y", {2}));
  const auto units = unit_groups(sequence);
  const auto cell = std::ranges::find(units, "cell1", &UnitGroup::name);
  ASSERT_NE(cell, units.end());
  shapes.clear();
  for (const auto& p : sequence.parameters()) shapes[p.name] = p.shape;
  values = {{"cell1/weights", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}, {"out/weights", {1, 3}}};
  compensate(*cell, {{.unit = 0, .reason = Reason::twin, .twin = 1}}, {}, shapes, values);
  EXPECT_EQ(values.at("out/weights"), (std::vector<float>{1, 4}));
  EXPECT_EQ(values.at("cell1/weights"), (std::vector<float>{1, 3, 3, 7, 5, 11, 7, 15, 9, 19, 11, 23, 13, 27, 15, 31}));
}

}  // namespace
}  // namespace keelson::testing
