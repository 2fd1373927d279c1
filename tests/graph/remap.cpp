#include <gtest/gtest.h>

#include "engine/execute/executor.hpp"
#include "engine/layers/layers.hpp"
#include "engine/optim/adam.hpp"
#include "engine/optim/lamb.hpp"
#include "engine/optim/lars.hpp"
#include "engine/optim/muon.hpp"
#include "engine/optim/sgd.hpp"
#include "tests/oracle/ops.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/data_files.hpp"
#include "tests/support/networks.hpp"

/// Parameters::remap: values and moments go to the places that the maps name, bit for bit.
namespace keelson::testing {
namespace {

using Indices = std::vector<std::int64_t>;

Graph net(std::int64_t filters, std::int64_t hidden, const std::string& last = "out") {
  Graph g;
  const Var x = g.input("x", {3, 4, 4}), y = g.input("y", {2});
  const Var h = relu(conv(x, {.filters = filters, .bias_init = Init::constant(0.5f)}, "conv"));
  mse(dense(relu(dense(flatten(h), hidden, "hidden")), 2, last), y);
  return g;
}

/// Two steps, so that no moment is zero.
void train(const Graph& g, Parameters& parameters, const Optimizer& optimizer) {
  Executor executor(g, parameters, {.batch = 2, .optimizer = &optimizer});
  for (std::uint64_t i = 0; i < 2; ++i) {
    set_input(parameters.context(), executor, "x", oracle::random_uniform({2, 3, 4, 4}, fmt::format("x{}", i)));
    set_input(parameters.context(), executor, "y", oracle::random_uniform({2, 2}, fmt::format("y{}", i), 3, 5));
    executor.forward({.step = i, .inverse_samples = 0.5f, .learning_rate = 0.01f});
    executor.backward();
    executor.update();
  }
}

/// Columns of a dense layer that reads these channels of 4 x 4 pixels.
Indices columns(const Indices& channels) {
  Indices all;
  for (const auto c : channels)
    for (std::int64_t i = 0; i < 16; ++i) all.push_back(c < 0 ? -1 : c * 16 + i);
  return all;
}

class Remap : public ::testing::TestWithParam<std::string> {
 protected:
  Context& ctx() { return context(GetParam()); }
};

TEST_P(Remap, CarriesOverValuesAndAllMoments) {
  const Indices filters{4, 0, 2}, hidden{6, 1, 2, 3};
  const ParameterMaps maps{{"conv/weights", {.indices = {filters}}},
                           {"conv/bias", {.indices = {filters}}},
                           {"hidden/weights", {.indices = {hidden, columns(filters)}}},
                           {"hidden/bias", {.indices = {hidden}}},
                           {"out/weights", {.indices = {std::nullopt, hidden}}}};
  auto momentum = std::make_shared<Sgd>();
  momentum->momentum = 0.9f;
  for (const std::shared_ptr<const Optimizer>& optimizer : {std::shared_ptr<const Optimizer>(momentum),
                                                            {std::make_shared<Adam>()},
                                                            {std::make_shared<Lars>()},
                                                            {std::make_shared<Lamb>()},
                                                            {std::make_shared<Muon>()}}) {
    SCOPED_TRACE(optimizer->to_string());
    const Graph old_net = net(5, 7), new_net = net(3, 4);
    Parameters old(old_net, ctx(), 1);
    train(old_net, old, *optimizer);
    Parameters kept = old.remap(new_net, maps);
    const auto moments = static_cast<int>(optimizer->state_names().size());
    ASSERT_GT(moments, 0);
    const Executor executor(new_net, kept, {.batch = 2, .optimizer = optimizer.get()});
    for (int which = -1; which < moments; ++which) {
      const auto expect = [&](const std::string& name, const Indices& rows, const Indices& of_row) {
        const auto before = old.get(old.at(name), which), after = kept.get(kept.at(name), which);
        const auto row = before.size() / static_cast<std::size_t>(old.at(name).shape[0]);
        std::vector<float> want;
        for (const auto r : rows)
          for (const auto c : of_row)
            want.push_back(before[static_cast<std::size_t>(r) * row + static_cast<std::size_t>(c)]);
        EXPECT_EQ(after, want) << name << ", " << which;
      };
      Indices conv_row(27);
      for (std::size_t i = 0; i < 27; ++i) conv_row[i] = static_cast<std::int64_t>(i);
      expect("conv/weights", filters, conv_row);
      expect("conv/bias", filters, {0});
      expect("hidden/weights", hidden, columns(filters));
      expect("hidden/bias", hidden, {0});
      expect("out/weights", {0, 1}, hidden);
      expect("out/bias", {0, 1}, {0});
    }
    for (const Parameter& p : kept.all()) {
      EXPECT_TRUE(p.start.empty()) << "a second copy of " << p.name;
      for (const auto& m : p.start_moments) EXPECT_TRUE(m.empty());
    }
    train(new_net, kept, *optimizer);
  }
}

/// As a rank has them that waits while others train, and that then trains, too.
TEST_P(Remap, ValuesAreSetBeforeThereIsMemory) {
  const Adam adam;
  const Graph graph = net(2, 4);
  Parameters trained(graph, ctx(), 1), waiting(graph, ctx(), 2);
  train(graph, trained, adam);
  const auto expect_equal = [&](Parameters& after, const char* when) {
    for (const Parameter& p : trained.all())
      for (int which = -1; which < 2; ++which)
        EXPECT_EQ(after.get(after.at(p.name), which), trained.get(p, which)) << p.name << ", " << which << ", " << when;
  };
  for (const Parameter& p : trained.all())
    for (int which = -1; which < 2; ++which) waiting.set(waiting.at(p.name), trained.get(p, which), which);
  expect_equal(waiting, "before the first plan");
  Parameters again = waiting.remap(graph, {});
  const Executor executor(graph, again, {.batch = 2, .optimizer = &adam});
  expect_equal(again, "in memory");
}

TEST_P(Remap, NewEntriesAndNewParametersBeginAsTheirInitSays) {
  const Adam adam;
  const Graph old_net = net(2, 4), new_net = net(3, 4, "last");
  Parameters old(old_net, ctx(), 1);
  train(old_net, old, adam);
  const Indices filters{0, -1, 1};
  Parameters grown = old.remap(new_net, {{"conv/weights", {.indices = {filters}}},
                                         {"conv/bias", {.indices = {filters}}},
                                         {"hidden/weights", {.indices = {std::nullopt, columns(filters)}}},
                                         {"last/bias", {.from = "out/bias"}}});
  const Executor executor(new_net, grown, {.batch = 2, .optimizer = &adam});
  Parameters fresh(new_net, ctx(), 1);
  const Executor other(new_net, fresh, {.batch = 2, .optimizer = &adam});
  EXPECT_EQ(grown.get(grown.at("conv/bias"))[1], 0.5f);
  const auto now = grown.get(grown.at("conv/weights")), then = old.get(old.at("conv/weights")),
             initial = fresh.get(fresh.at("conv/weights"));
  for (std::size_t i = 0; i < 27; ++i) {
    EXPECT_EQ(now[i], then[i]);
    EXPECT_EQ(now[27 + i], initial[27 + i]);
    EXPECT_EQ(now[54 + i], then[27 + i]);
  }
  for (int which : {0, 1}) {
    const auto moment = grown.get(grown.at("conv/weights"), which), before = old.get(old.at("conv/weights"), which);
    for (std::size_t i = 0; i < 27; ++i) {
      EXPECT_EQ(moment[i], before[i]);
      EXPECT_EQ(moment[27 + i], 0);
    }
    EXPECT_EQ(grown.get(grown.at("last/bias"), which), old.get(old.at("out/bias"), which));
    EXPECT_EQ(grown.get(grown.at("last/weights"), which), std::vector<float>(8));
  }
  EXPECT_EQ(grown.get(grown.at("last/bias")), old.get(old.at("out/bias")));
  EXPECT_EQ(grown.get(grown.at("last/weights")), fresh.get(fresh.at("last/weights")));
}

/// Nothing is lost between two changes, nor without any plan.
TEST_P(Remap, WorksBeforeAPlanIsMadeAndTwiceInARow) {
  const Adam adam;
  const Graph net4 = net(2, 4), net3 = net(2, 3), net2 = net(2, 2);
  const auto maps = [](const Indices& hidden) {
    return ParameterMaps{{"hidden/weights", {.indices = {hidden}}},
                         {"hidden/bias", {.indices = {hidden}}},
                         {"out/weights", {.indices = {std::nullopt, hidden}}}};
  };
  Parameters old(net4, ctx(), 1);
  const auto initial = old.get(old.at("hidden/weights"));
  const Parameters early = old.remap(net3, maps({3, 1, 0}));
  const auto* early_weights = early.find("hidden/weights");
  ASSERT_NE(early_weights, nullptr);
  EXPECT_TRUE(std::equal(initial.begin(), initial.begin() + 32, early.get(*early_weights).begin() + 64));
  train(net4, old, adam);
  Parameters twice = old.remap(net3, maps({3, 1, 0})).remap(net2, maps({2, 0}));
  Parameters once = old.remap(net2, maps({0, 3}));
  const Executor a(net2, twice, {.batch = 2, .optimizer = &adam}), b(net2, once, {.batch = 2, .optimizer = &adam});
  for (const Parameter& p : once.all())
    for (int which = -1; which < 2; ++which) EXPECT_EQ(twice.get(twice.at(p.name), which), once.get(p, which));
}

TEST_P(Remap, RefusesWhatDoesNotFit) {
  const Graph old_net = net(5, 7);
  Parameters old(old_net, ctx(), 1);
  const auto refusal = [&](const Graph& g, const ParameterMaps& maps) {
    return message_of<InputError>([&] { old.remap(g, maps); });
  };
  EXPECT_EQ(refusal(net(5, 6), {}),
            "the parameter hidden/weights is 6x80 in the new network, and hidden/weights is 7x80 in the old one: give "
            "a map that says which indices of dimension 0 stay");
  const auto bias = [](const Indices& indices) {
    return ParameterMaps{{"hidden/bias", {.indices = {indices}}},
                         {"hidden/weights", {.indices = {indices}}},
                         {"out/weights", {.indices = {std::nullopt, indices}}}};
  };
  EXPECT_NE(refusal(net(5, 6), bias({0, 1, 2, 3, 4})).find("has 5 indices for dimension 0: expected 6"),
            std::string::npos);
  EXPECT_NE(refusal(net(5, 6), bias({0, 1, 2, 3, 4, 7})).find("index 7 of dimension 0: expected 0 to 6"),
            std::string::npos);
  EXPECT_NE(refusal(net(5, 7), {{"convv/bias", {}}}).find("'convv/bias', but the new network has no such parameter"),
            std::string::npos);
  EXPECT_NE(refusal(net(5, 7), {{"conv/bias", {.from = "x"}}})
                .find("takes it from 'x', but the old network has no such parameter"),
            std::string::npos);
  EXPECT_NE(refusal(net(5, 7), {{"conv/bias", {.from = "conv/weights"}}}).find("give the new parameter another name"),
            std::string::npos);
  EXPECT_NE(refusal(net(5, 7), {{"conv/bias", {.indices = {{}, {}}}}}).find("its map has 2 dimensions"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Contexts, Remap, ::testing::ValuesIn(network_contexts()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace keelson::testing
