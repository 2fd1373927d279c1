#include "engine/grow/widen.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "engine/base/philox.hpp"
#include "engine/execute/executor.hpp"
#include "engine/layers/layers.hpp"
#include "engine/optim/adam.hpp"
#include "engine/optim/sgd.hpp"
#include "nets/lstm_lm/lstm_lm.hpp"
#include "nets/mlp/mlp.hpp"
#include "nets/registry.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/data_files.hpp"
#include "tests/support/network_runs.hpp"
#include "tests/support/networks.hpp"
#include "tests/support/random_graph.hpp"

/// Networks with more units that compute what they did before.
namespace keelson::testing {
namespace {

/// Up to three times as many units in most groups, at random.
std::vector<Widening> random_widening(const std::vector<UnitGroup>& groups, WidenMethod method, std::uint64_t seed) {
  std::vector<Widening> all;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const philox::Key key{seed, 13, g};
    const auto most = static_cast<std::uint64_t>(2 * groups[g].units);
    const bool grows = !groups[g].fixed && philox::uniform(key, 0) < 0.8f;
    const auto more = grows ? 1 + philox::below(key, 8, most) : 0;
    all.push_back({groups[g].units + static_cast<std::int64_t>(more), method});
  }
  return all;
}

/// Inputs for the wider network: the new units of a recurrent state have the states of the units they are copies of.
NetworkInputs inputs_of_wide(const Graph& graph, const std::vector<UnitGroup>& groups,
                             const std::vector<Widening>& widening, const NetworkInputs& inputs) {
  NetworkInputs wide = inputs;
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (const UnitPlace& p : groups[g].places) {
      if (p.node < 0 || !graph.nodes()[static_cast<std::size_t>(p.node)].is_state) continue;
      std::vector<std::int64_t> units;
      for (std::int64_t u = 0; u < widening[g].units; ++u) units.push_back(u % groups[g].units);
      const std::string& name = graph.nodes()[static_cast<std::size_t>(p.node)].name;
      wide[name] = taken(inputs.at(name), p.dim, units);
    }
  return wide;
}

int expect_same_with_more_units(Context& context, const Graph& graph, WidenMethod method, std::uint64_t seed) {
  const double tolerance = method == WidenMethod::zero ? 2e-6 : 1e-5;
  const auto groups = unit_groups(graph);
  const auto widening = random_widening(groups, method, seed);
  Parameters narrow(graph, context, seed);
  set_random_values(narrow, seed);
  const NetworkChange change = widen_units(graph, groups, widening, narrow);
  Parameters wide = changed_parameters(narrow, change, {});
  const NetworkInputs inputs = random_inputs(graph, seed), more = inputs_of_wide(graph, groups, widening, inputs);
  const auto want = outputs_of(context, graph, narrow, inputs), got = outputs_of(context, change.graph, wide, more);
  for (const auto& [name, values] : want) {
    EXPECT_EQ(got.at(name).size(), values.size()) << name;
    EXPECT_LT(norm_of_difference(got.at(name), values), tolerance) << name;
  }
  const double loss = train_step(context, graph, narrow, inputs);
  EXPECT_NEAR(train_step(context, change.graph, wide, more), loss, 2 * tolerance * std::abs(loss));
  int grown = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) grown += widening[g].units > groups[g].units;
  const auto after = unit_groups(change.graph);
  EXPECT_EQ(after.size(), groups.size());
  for (std::size_t g = 0; g < std::min(after.size(), groups.size()); ++g)
    EXPECT_EQ(after[g].units, widening[g].units) << groups[g].name;
  return grown;
}

class WidenUnits : public ::testing::TestWithParam<WidenMethod> {};
INSTANTIATE_TEST_SUITE_P(Methods, WidenUnits, ::testing::Values(WidenMethod::copy, WidenMethod::zero),
                         [](const auto& info) { return to_string(info.param); });

/// The network with a quarter of its units.
Graph with_fewer_units(const Graph& graph) {
  const auto groups = unit_groups(graph);
  std::vector<std::vector<std::int64_t>> keep;
  for (const UnitGroup& group : groups) {
    auto& units = keep.emplace_back(static_cast<std::size_t>(group.fixed ? group.units : (group.units + 3) / 4));
    std::iota(units.begin(), units.end(), 0);
  }
  return keep_units(graph, groups, keep).graph;
}

TEST_P(WidenUnits, RandomNetworksStayTheSame) {
  const auto contexts = network_contexts();  // by turns: new units are a matter of graphs, not of backends
  for (const auto& where : contexts) context(where).require_exact_convolutions(true);
  int grown = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const auto& where = contexts[seed % contexts.size()];
    SCOPED_TRACE(fmt::format("{}, network {}", where, seed));
    const Graph g = random_graph(seed);
    grown += expect_same_with_more_units(context(where), g, GetParam(), seed);
    if (HasFailure()) {
      std::cout << g.summary();
      break;
    }
  }
  EXPECT_GT(grown, 80) << "groups that gain units";
  for (const auto& where : contexts) context(where).require_exact_convolutions(false);
}

TEST_P(WidenUnits, NetworksStayTheSame) {
  Context& ctx = context(network_contexts().back());
  ctx.require_exact_convolutions(true);
  for (const auto& net : nets::registered_networks()) {
    if (net.name == "paper") continue;  // the kinds of layers of mlperf, on images that take half a minute
    SCOPED_TRACE(net.name);
    const Graph whole = without_dropout(net.make(net.tiny_settings, net.tiny_sample));
    const Graph g = whole.parameter_count() > 300'000 ? with_fewer_units(whole) : with_widths(whole, Topology(whole));
    EXPECT_GT(expect_same_with_more_units(ctx, g, GetParam(), 1), 2);
  }
  for (const auto& [name, options] : dense_networks()) {
    SCOPED_TRACE(name);
    EXPECT_GT(expect_same_with_more_units(ctx, without_dropout(nets::mlp(options)), GetParam(), 3), 1);
  }
  for (const auto cell : {ops::CellKind::lstm, ops::CellKind::gru})
    for (const bool tied : {false, true}) {
      SCOPED_TRACE(fmt::format("language model, {}", tied));
      const Graph g = without_dropout(nets::lstm_lm({.vocabulary = 11,
                                                     .hidden = 6,
                                                     .layers = 2,
                                                     .unroll = 4,
                                                     .tied = tied,
                                                     .cell = cell,
                                                     .logits_output = true}));
      EXPECT_GT(expect_same_with_more_units(ctx, g, GetParam(), 2), 0);
    }
  ctx.require_exact_convolutions(false);
}

/// A hidden layer of 5 units, which is the second group.
Graph two_layers() {
  Graph g;
  const Var h = tanh(dense(g.input("x", {4}), 5, "hidden"));
  const Var out = dense(h, 2, "out");
  g.set_output("prediction", out);
  mse(out, g.input("y", {2}));
  return g;
}

std::vector<Widening> widen_hidden(const std::vector<UnitGroup>& groups, std::int64_t units, WidenMethod method) {
  std::vector<Widening> all;
  for (const UnitGroup& group : groups) all.push_back({group.name == "hidden" ? units : group.units, method});
  return all;
}

class WidenedTraining : public ::testing::Test {
 protected:
  WidenedTraining() { set_random_values(narrow_, 3); }

  /// The losses of 50 steps on one batch.
  std::vector<double> train(const Graph& graph, Parameters& parameters, const Optimizer& optimizer, float rate = 0.1f) {
    Executor executor(graph, parameters, {.batch = 3, .optimizer = &optimizer});
    for (const auto& [name, values] : inputs_) set_input(context_, executor, name, values);
    std::vector<double> losses;
    for (int step = 0; step < 50; ++step) {
      executor.forward({.inverse_samples = 1.0f / 3, .learning_rate = rate});
      executor.backward();
      executor.update();
      losses.push_back(executor.loss());
    }
    return losses;
  }

  Context& context_ = context(network_contexts().back());
  Graph graph_ = two_layers();
  std::vector<UnitGroup> groups_ = unit_groups(graph_);
  Parameters narrow_{graph_, context_, 7};
  NetworkInputs inputs_ = random_inputs(graph_, 1);
};

/// With equal parts, without momentum, and rates that make up for the parts, the wide network goes the way of the
/// narrow one.
TEST_F(WidenedTraining, WithEqualPartsAndScaledRatesGoesTheSameWay) {
  const auto change = widen_units(graph_, groups_, widen_hidden(groups_, 10, WidenMethod::copy), narrow_, 0);
  Sgd plain;
  plain.momentum = 0;
  Sgd scaled = plain;
  scaled.groups = {{.patterns = {"hidden/*"}, .lr_multiplier = 2},
                   {.patterns = {"out/weights"}, .lr_multiplier = 0.5f}};
  Parameters wide = changed_parameters(narrow_, change, {}), unscaled = changed_parameters(narrow_, change, {});
  const auto want = train(graph_, narrow_, plain), got = train(change.graph, wide, scaled),
             other = train(change.graph, unscaled, plain);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-6 * want[0]) << i;
  EXPECT_GT(std::abs(other.back() - want.back()), 1e-3 * want[0]) << "the scaled rates make the difference";
}

TEST_F(WidenedTraining, CopiesPartIfTheirPartsAreUnequal) {
  for (const double spread : {0.0, 0.5}) {
    const auto change = widen_units(graph_, groups_, widen_hidden(groups_, 10, WidenMethod::copy), narrow_, spread);
    Parameters wide = changed_parameters(narrow_, change, {});
    train(change.graph, wide, Sgd());
    const auto weights = wide.get(wide.at("hidden/weights"));
    double apart = 0;
    for (std::size_t i = 0; i < 20; ++i) apart = std::max<double>(apart, std::abs(weights[i] - weights[i + 20]));
    if (spread == 0)
      EXPECT_LT(apart, 1e-5);
    else
      EXPECT_GT(apart, 1e-2);
  }
}

TEST_F(WidenedTraining, MomentsFollowTheGradients) {
  const Adam adam;
  train(graph_, narrow_, adam, 0.01f);
  const auto change = widen_units(graph_, groups_, widen_hidden(groups_, 8, WidenMethod::copy), narrow_);
  const Parameters wide = changed_parameters(narrow_, change, adam.state_names());
  const auto moment = [](const Parameters& of, const std::string& name, int which) {
    return of.get(*of.find(name), which);
  };
  for (const int which : {0, 1}) {
    const float part = which == 0 ? 0.5f : 0.25f;
    const auto before = moment(narrow_, "hidden/bias", which), after = moment(wide, "hidden/bias", which);
    const auto rows = moment(narrow_, "hidden/weights", which), wide_rows = moment(wide, "hidden/weights", which);
    const auto columns = moment(narrow_, "out/weights", which), wide_columns = moment(wide, "out/weights", which);
    for (std::size_t u = 0; u < 8; ++u) {  // units 0, 1 and 2 have copies
      const float factor = u % 5 < 3 ? part : 1;
      EXPECT_EQ(after[u], factor * before[u % 5]) << u;
      for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(wide_rows[4 * u + i], factor * rows[4 * (u % 5) + i]);
      for (std::size_t o = 0; o < 2; ++o) EXPECT_EQ(wide_columns[8 * o + u], columns[5 * o + u % 5]);
    }
  }
  const auto zero = widen_units(graph_, groups_, widen_hidden(groups_, 8, WidenMethod::zero), narrow_);
  EXPECT_TRUE(zero.gradient_factors.empty());
  const Parameters with_zeros = changed_parameters(narrow_, zero, adam.state_names());
  for (const int which : {-1, 0, 1}) {
    const auto columns = moment(with_zeros, "out/weights", which);
    for (const std::size_t i : {5, 6, 7, 13, 14, 15}) EXPECT_EQ(columns[i], 0);
  }
  const auto fresh = moment(with_zeros, "hidden/weights", -1);
  EXPECT_NE(fresh[20], 0);
  EXPECT_NE(fresh[20], fresh[24]);
}

TEST_F(WidenedTraining, UnitsThatGoAgainLeaveTheSameBits) {
  const auto change = widen_units(graph_, groups_, widen_hidden(groups_, 9, WidenMethod::zero), narrow_);
  const Parameters wide = changed_parameters(narrow_, change, {});
  const auto wide_groups = unit_groups(change.graph);
  std::vector<std::vector<std::int64_t>> keep;
  for (const UnitGroup& group : groups_) {
    auto& units = keep.emplace_back();
    for (std::int64_t u = 0; u < group.units; ++u) units.push_back(u);
  }
  const auto back = keep_units(change.graph, wide_groups, keep);
  const Parameters again = wide.remap(back.graph, back.maps);
  for (const Parameter& p : again.all()) EXPECT_EQ(again.get(p), narrow_.get(*narrow_.find(p.name))) << p.name;
}

TEST_F(WidenedTraining, Refusals) {
  const auto message = [&](std::vector<Widening> widening) {
    return message_of<InputError>([&] { widen_units(graph_, groups_, widening, narrow_); });
  };
  ASSERT_EQ(groups_[1].name, "hidden");
  EXPECT_EQ(message({{4}, {4}, {2}}), "hidden: 4 units: expected 5, as there are, or more");
  EXPECT_EQ(message({{4}, {5}, {3}}),
            "out: no unit can be added to its 2, since inputs, outputs or layers depend on their number");
  EXPECT_EQ(parse_widen_method("zero"), WidenMethod::zero);
  EXPECT_THROW(parse_widen_method("split"), InputError);
}

/// An embedding that is also the output layer cannot have copies.
TEST(CanCopy, NotWhereTheSameElementsMakeAndMultiply) {
  const Graph tied = nets::lstm_lm({.vocabulary = 9, .hidden = 4, .layers = 1, .unroll = 3, .tied = true});
  const auto groups = unit_groups(tied);
  EXPECT_TRUE(std::ranges::any_of(groups, [](const UnitGroup& g) { return !can_copy(g); }));
  const Graph plain = two_layers();
  EXPECT_TRUE(std::ranges::all_of(unit_groups(plain), can_copy));
}

}  // namespace
}  // namespace keelson::testing
