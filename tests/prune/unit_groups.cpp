#include "engine/prune/unit_groups.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/layers/layers.hpp"
#include "nets/lstm_lm/lstm_lm.hpp"
#include "nets/mlp/mlp.hpp"
#include "nets/registry.hpp"
#include "tests/prune/same_network.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/data_files.hpp"
#include "tests/support/network_runs.hpp"
#include "tests/support/random_graph.hpp"

/// Which units of a network belong together, and networks without some of them.
namespace keelson::testing {
namespace {

/// "a: 5 in a b add1": the group with the nodes that have its units.
std::string to_string(const Graph& graph, const UnitGroup& group) {
  std::string text = fmt::format("{}: {}{} in", group.name, group.units, group.fixed ? " fixed" : "");
  for (const UnitPlace& p : group.places)
    if (p.node >= 0) {
      text += " " + graph.nodes()[static_cast<std::size_t>(p.node)].name;
      if (p.indices[0].size() > 1) text += fmt::format("({})", p.indices[0].size());
    }
  return text;
}

std::vector<std::string> described(const Graph& graph) {
  std::vector<std::string> all;
  for (const UnitGroup& group : unit_groups(graph)) all.push_back(to_string(graph, group));
  return all;
}

using Lines = std::vector<std::string>;

TEST(UnitGroups, FollowSumsAndBranchesAndPixels) {
  Graph g;
  const Var x = g.input("x", {3, 6, 6}), y = g.input("y", {2});
  const Var a = leaky_relu(conv(x, {.filters = 5}, "a"), 0.1f, "act");
  const Var sum = add({batch_norm(conv(a, {.filters = 5}, "b"), {}, "norm"), a}, "sum");
  const Var depthwise = conv(sum, {.filters = 10, .groups = 5}, "depthwise");
  const Var c = conv(sum, {.filters = 4}, "c");
  const Var both = max_pool(concat({depthwise, c}, 1, "both"), 3, "pool");
  const Var out = dense(flatten(both, ElementOrder::logical, 0, "flat"), 2, "out");
  g.set_output("prediction", out);
  mse(out, y);
  EXPECT_EQ(described(g), (Lines{"x: 3 fixed in x", "a: 5 in a act b norm sum depthwise(2) both(2) pool(2) flat(8)",
                                 "c: 4 in c both pool flat(4)", "out: 2 fixed in out"}));
  const auto groups = unit_groups(g);
  const auto& places = groups[1].places;
  const auto place = [&](const std::string& name, int dim) {
    const auto found = std::ranges::find_if(places, [&](const auto& p) { return p.parameter == name && p.dim == dim; });
    EXPECT_NE(found, places.end()) << name;
    return *found;
  };
  EXPECT_TRUE(place("norm/running_variance", 0).makes);
  ASSERT_EQ(place("c/weights", 1).readers.size(), 1u);
  EXPECT_EQ(g.nodes()[static_cast<std::size_t>(place("c/weights", 1).readers[0].value)].name, "sum");
  EXPECT_EQ(place("c/weights", 1).readers[0].bias, "c/bias");
  EXPECT_FALSE(place("c/weights", 1).makes);
  EXPECT_EQ(place("depthwise/weights", 0).indices[3], (std::vector<std::int64_t>{6, 7}));
  EXPECT_EQ(place("out/weights", 1).indices[1], (std::vector<std::int64_t>{8, 9, 10, 11, 12, 13, 14, 15}));
}

TEST(UnitGroups, FollowGatesAndStates) {
  const auto net = [](ops::CellKind cell, bool tied) {
    return nets::lstm_lm({.vocabulary = 9,
                          .hidden = 4,
                          .layers = 2,
                          .unroll = 3,
                          .dropout = 0,
                          .tied = tied,
                          .cell = cell,
                          .logits_output = true});
  };
  const Graph lstm = net(ops::CellKind::lstm, false);
  EXPECT_EQ(described(lstm),
            (Lines{"embedding: 4 in embedding embedding_dropout", "lstm1: 4 in lstm1_input(4) lstm1_state lstm1",
                   "lstm2: 4 in lstm2_input(4) lstm2_state lstm2 output_dropout", "output: 9 fixed in output"}));
  const auto groups = unit_groups(lstm);
  EXPECT_EQ(groups[1].places[0].indices[1], (std::vector<std::int64_t>{1, 5, 9, 13}));
  EXPECT_EQ(described(net(ops::CellKind::gru, true)),
            (Lines{"embedding: 4 in embedding embedding_dropout gru2_input(3) gru2_state gru2 output_dropout",
                   "gru1: 4 in gru1_input(3) gru1_state gru1", "output: 9 fixed in output"}));
}

/// A layer that depends on the number of units, and one that regroups them, keep all.
TEST(UnitGroups, KeepWhatLayersDependOn) {
  Graph g;
  const Var x = g.input("x", {4}), y = g.input("y", {2});
  const Var norm = rms_norm(dense(x, 6, "a"));
  const Var shares = softmax(dense(norm, 5, "b"));
  const Var out = dense(shares, 2, "out");
  g.set_output("prediction", out);
  mse(out, y);
  for (const UnitGroup& group : unit_groups(g)) EXPECT_TRUE(group.fixed) << group.name;
  Graph mixing;
  const Var u = conv(mixing.input("u", {2, 4, 4}), {.filters = 4}, "conv");
  mse(dense(flatten(reshape(u, {2, 8, 4})), 2), mixing.input("y", {2}));
  EXPECT_TRUE(unit_groups(mixing)[1].fixed);
}

TEST(UnitGroups, RefuseUnitsThatCannotGo) {
  Graph g;
  const Var out = dense(relu(dense(g.input("x", {4}), 6, "a")), 2, "out");
  g.set_output("prediction", out);
  mse(out, g.input("y", {2}));
  const auto groups = unit_groups(g);
  const auto refusal = [&](std::vector<std::vector<std::int64_t>> keep) {
    return message_of<InputError>([&] { keep_units(g, groups, keep); });
  };
  const std::vector<std::int64_t> four{0, 1, 2, 3}, six{0, 1, 2, 3, 4, 5}, two{0, 1};
  EXPECT_EQ(refusal({four, {}, two}), "a: no unit of 6 is left: keep one at least");
  EXPECT_EQ(refusal({four, {3, 6}, two}), "a: unit 6: expected 0 to 5 in ascending order");
  EXPECT_EQ(refusal({four, {3, 3}, two}), "a: unit 3: expected 0 to 5 in ascending order");
  EXPECT_NE(refusal({four, six, {1}}).find("out: its 2 units cannot be removed"), std::string::npos);
  const NetworkChange same = keep_units(g, groups, {four, six, two});
  EXPECT_TRUE(same.maps.empty());
  EXPECT_EQ(Topology(same.graph), Topology(g));
}

/// The network of a checkpoint comes from the network before and the checkpoint's topology.
void expect_widths_come_back(const Graph& graph, const std::vector<std::vector<std::int64_t>>& keep) {
  const NetworkChange change = keep_units(graph, unit_groups(graph), keep);
  const Topology wanted(change.graph);
  const Graph again = with_widths(graph, wanted);
  EXPECT_EQ(difference(Topology(again), wanted), "");
  EXPECT_EQ(difference(Topology(with_widths(again, Topology(graph))), Topology(graph)), "");
}

TEST(UnitGroups, RandomNetworksAreTheSameWithoutUnitsThatHaveNoEffect) {
  for (const auto& where : network_contexts()) {
    Context& ctx = context(where);
    ctx.require_exact_convolutions(true);
    int removed = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      SCOPED_TRACE(fmt::format("{}, network {}", where, seed));
      const Graph g = random_graph(seed);
      const auto groups = unit_groups(g);
      const auto keep = random_units(groups, seed);
      for (std::size_t i = 0; i < keep.size(); ++i) removed += std::ssize(keep[i]) < groups[i].units;
      expect_same_without_units(ctx, g, keep, seed);
      expect_widths_come_back(g, keep);
      if (HasFailure()) {
        std::cout << g.summary();
        break;
      }
    }
    EXPECT_GT(removed, 400) << "groups that lose units";
    ctx.require_exact_convolutions(false);
  }
}

TEST(UnitGroups, NetworksAreTheSameWithoutUnitsThatHaveNoEffect) {
  for (const auto& where : network_contexts()) {
    Context& ctx = context(where);
    ctx.require_exact_convolutions(true);
    for (const auto& net : nets::registered_networks()) {
      SCOPED_TRACE(net.name + ", " + where);
      const Graph g = without_dropout(net.make(net.tiny_settings, net.tiny_sample));
      const auto groups = unit_groups(g);
      EXPECT_GT(std::ranges::count(groups, false, &UnitGroup::fixed), 3);
      const auto keep = random_units(groups, 1);
      expect_same_without_units(ctx, g, keep, 1);
      expect_widths_come_back(g, keep);
    }
    for (const auto& [name, options] : dense_networks()) {
      SCOPED_TRACE(name + ", " + where);
      const Graph g = without_dropout(nets::mlp(options));
      const auto keep = random_units(unit_groups(g), 3);
      expect_same_without_units(ctx, g, keep, 3);
      expect_widths_come_back(g, keep);
    }
    for (const auto cell : {ops::CellKind::lstm, ops::CellKind::gru})
      for (const bool tied : {false, true}) {
        SCOPED_TRACE(fmt::format("language model, {}, {}", tied, where));
        const Graph g = without_dropout(nets::lstm_lm({.vocabulary = 11,
                                                       .hidden = 6,
                                                       .layers = 2,
                                                       .unroll = 4,
                                                       .tied = tied,
                                                       .cell = cell,
                                                       .logits_output = true}));
        const auto keep = random_units(unit_groups(g), 2);
        expect_same_without_units(ctx, g, keep, 2);
        expect_widths_come_back(g, keep);
      }
    ctx.require_exact_convolutions(false);
  }
}

}  // namespace
}  // namespace keelson::testing
