#include "engine/prune/redundancy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "engine/execute/executor.hpp"
#include "engine/layers/layers.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/networks.hpp"

/// Units whose place a linear combination of others takes.
namespace keelson::testing {
namespace {

/// Two inputs, three hidden units without an activation, two outputs.
Graph three_units(bool bias = true) {
  Graph g;
  const Var out = dense(dense(g.input("x", {2}), 3, "a"), {.features = 2, .bias = bias}, "out");
  g.set_output("prediction", out);
  mse(out, g.input("y", {2}));
  return g;
}

const UnitGroup& units_of_a(const std::vector<UnitGroup>& groups) {
  return *std::ranges::find(groups, "a", &UnitGroup::name);
}

/// Unit 2 is 2 h_0 - h_1 + 3.
ParameterValues three_values() {
  return {{"a/weights", {1, 0, 0, 1, 2, -1}},
          {"a/bias", {0, 0, 3}},
          {"out/weights", {1, 2, 3, 4, 5, -1}},
          {"out/bias", {0.5f, -0.5f}}};
}

std::map<std::string, Shape> shapes_of(const Graph& g) {
  std::map<std::string, Shape> shapes;
  for (const auto& p : g.parameters()) shapes[p.name] = p.shape;
  return shapes;
}

/// What the node `name` is for the values h_0, h_1 = (1, 0), (-1, 0), (0, 2), (0, -2).
ValueObservations four_rows(const Graph& g, const std::string& name = "a") {
  const auto a = std::ranges::find(g.nodes(), name, &Graph::Node::name) - g.nodes().begin();
  return {{static_cast<int>(a), {4, {1, 0, 5, -1, 0, 1, 0, 2, 1, 0, -2, 5}}}};
}

TEST(Statistics, AreThoseOfTheObservations) {
  const auto all = statistics_of({{3, {2, {1, 0, 3, 0}}}});
  EXPECT_EQ(all.at(3).mean, (std::vector<double>{2, 0}));
  EXPECT_EQ(all.at(3).variance, (std::vector<double>{1, 0}));
  EXPECT_EQ(all.at(3).active, (std::vector<char>{1, 0}));
}

/// h_2 = 2 h_0 - h_1 + 3: its outgoing weights (3, -1) are added twice to those of h_0, and taken from those of h_1.
TEST(UnitRedundancy, ReplacesALinearCombination) {
  const Graph g = three_units();
  const auto groups = unit_groups(g);
  const auto shapes = shapes_of(g);
  auto values = three_values();
  const auto rows = four_rows(g);
  const UnitRedundancy redundancy(units_of_a(groups), shapes, values, rows);
  redundancy.replace({2}, values);
  const std::vector<float> weights{7, -1, 3, 2, 6, -1}, bias{9.5f, -3.5f};
  // A ten-thousandth of the mean variance is added to all variances.
  for (std::size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(values.at("out/weights")[i], weights[i], 3e-3) << i;
  for (std::size_t i = 0; i < bias.size(); ++i) EXPECT_NEAR(values.at("out/bias")[i], bias[i], 3e-3) << i;
}

/// Any one unit can go, since the others are enough. Of the two that are left, none can.
TEST(UnitRedundancy, RanksByTheErrorThatIsLeft) {
  const Graph g = three_units();
  const auto groups = unit_groups(g);
  const auto shapes = shapes_of(g);
  const auto values = three_values();
  const auto rows = four_rows(g);
  const auto order = UnitRedundancy(units_of_a(groups), shapes, values, rows).ranked(3);
  ASSERT_EQ(order.size(), 2u) << "one unit stays";
  EXPECT_LT(order[0].error, 1e-3);
  EXPECT_GT(order[1].error, 0.01);

  // Without unit 2, by hand: covariances 1/2 and 2, none between the two; outgoing weights (1, 4) and (2, 5).
  const auto two = UnitRedundancy(units_of_a(groups), shapes, values, rows, {2}).ranked(1);
  EXPECT_EQ(two.at(0).unit, 0);
  EXPECT_NEAR(two.at(0).error, 17 * 0.5 / (17 * 0.5 + 29 * 2), 1e-3);
}

TEST(UnitRedundancy, HasTheErrorsOfOtherRemovals) {
  const Graph g = three_units();
  const auto groups = unit_groups(g);
  const auto shapes = shapes_of(g);
  const auto values = three_values();
  const auto rows = four_rows(g);
  const UnitRedundancy two(units_of_a(groups), shapes, values, rows, {2});
  const double whole = 17 * 0.5 + 29 * 2;
  EXPECT_NEAR(two.error_of({.unit = 1, .reason = UnitRemoval::Reason::constant}), 29 * 2 / whole, 1e-6);
  EXPECT_NEAR(two.error_of({.unit = 0, .reason = UnitRemoval::Reason::twin, .twin = 1, .factor = 0.5}),
              17 * (0.5 + 0.25 * 2) / whole, 1e-6);
}

/// Without a bias nothing takes the place of the constant 3: the combination that is best without it.
TEST(UnitRedundancy, HasNoConstantWithoutABias) {
  const Graph g = three_units(false);
  const auto groups = unit_groups(g);
  const auto shapes = shapes_of(g);
  auto values = three_values();
  values.erase("out/bias");
  const auto rows = four_rows(g);
  const UnitRedundancy redundancy(units_of_a(groups), shapes, values, rows);
  redundancy.replace({2}, values);
  // Sum over the rows of h_2 h_0 = 4, of h_0^2 = 2; of h_2 h_1 = -8, of h_1^2 = 8. So the coefficients are 2 and -1.
  EXPECT_NEAR(values.at("out/weights")[0], 7, 3e-3);
  EXPECT_NEAR(values.at("out/weights")[1], -1, 3e-3);
  EXPECT_GT(redundancy.ranked(1).at(0).error, 0.01) << "no unit can go without an error";
}

/// The channels of a flattened image have the coefficients of their unit and constants of their own.
TEST(UnitRedundancy, KnowsFlattenedChannels) {
  Graph g;
  const Var h =
      flatten(conv(g.input("x", {1, 1, 2}), {.filters = 2, .size = 1}, "a"), ElementOrder::logical, 0, "flat");
  mse(dense(h, 1, "out"), g.input("y", {1}));
  const auto groups = unit_groups(g);
  const auto shapes = shapes_of(g);
  const auto flat = std::ranges::find(g.nodes(), "flat", &Graph::Node::name) - g.nodes().begin();
  // Channels: unit 0 at both pixels, then unit 1, which is twice unit 0, plus 1 at the first pixel, plus 5 at the
  // other.
  const ValueObservations rows{{static_cast<int>(flat), {2, {1, 2, 3, 9, -1, -2, -1, 1}}}};
  ParameterValues values{{"out/weights", {1, 1, 10, 100}}, {"out/bias", {0}}};
  UnitRedundancy(units_of_a(groups), shapes, values, rows).replace({1}, values);
  EXPECT_NEAR(values.at("out/weights")[0], 21, 0.03);
  EXPECT_NEAR(values.at("out/weights")[1], 201, 0.3);
  EXPECT_NEAR(values.at("out/bias")[0], 10 * 1 + 100 * 5, 1);
}

TEST(Silence, TakesOutgoingWeights) {
  const Graph g = three_units();
  const auto groups = unit_groups(g);
  auto values = three_values();
  silence(units_of_a(groups), {0, 2}, shapes_of(g), values);
  EXPECT_EQ(values.at("out/weights"), (std::vector<float>{0, 2, 0, 0, 5, 0}));
  EXPECT_EQ(values.at("a/weights"), three_values().at("a/weights"));
}

}  // namespace
}  // namespace keelson::testing
