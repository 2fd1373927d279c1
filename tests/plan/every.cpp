#include <gtest/gtest.h>

#include <sstream>

#include "engine/base/error.hpp"
#include "engine/execute/executor.hpp"
#include "engine/layers/layers.hpp"
#include "engine/ops/shampoo.hpp"
#include "engine/plan/update_builder.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/fake_async_context.hpp"
#include "tests/support/networks.hpp"

/// Calls that run in some steps alone, and states of shapes of their own, with a rule that counts steps.
namespace keelson::testing {
namespace {

Graph one_weight() {
  Graph g;
  mse(dense(g.input("x", {1}), {.features = 1, .bias = false}, "out"), g.input("y", {1}));
  return g;
}

/// Adds the weight, which does not move, to a state in each step, and to another one in some steps.
struct CountingRule : UpdateRule {
  Every every;
  bool through_arena = false;  ///< the second sum is copied to the third state in each step

  std::vector<std::string> state_names() const override { return {"of_all", "of_some", "none"}; }
  std::optional<Shape> own_state_shape(std::size_t state, const Shape&, std::int64_t) const override {
    return state == 2 ? Shape{0} : Shape{2, 1};
  }
  void append_updates(UpdateBuilder& b) const override {
    const UpdatedParameter& p = b.parameters().at(0);
    EXPECT_EQ(b.state(p, "none"), no_buffer);
    const auto add = [&](const std::string& state, const Every& e) {
      const BufferId sum = b.view(b.state(p, state), TensorDesc::plain({1, 1}), sizeof(float));
      b.call<ops::DecayedSum, ops::DecayedSum::Forward>("count", state, b.make(ops::DecayedSumDesc{b.desc(sum)}),
                                                        {.term = p.value, .sum = sum}, e);
    };
    add("of_all", {});
    add("of_some", every);
    if (!through_arena) return;
    const BufferId between = b.new_buffer(p, "between");
    const auto copy = b.make(ops::ReorderDesc{b.desc(p.value), b.desc(p.value)});
    b.call<ops::Reorder, ops::Reorder::Forward>("between", "copy", copy, {.src = p.value, .dst = between}, every);
    b.call<ops::Reorder, ops::Reorder::Forward>("behind", "copy", copy, {.src = between, .dst = p.value});
  }
};

/// How often a call of these steps runs in steps from `first` to before `last`.
int runs(Context& where, const CountingRule& rule, std::uint64_t first, std::uint64_t last) {
  const Graph g = one_weight();
  Parameters parameters(g, where, 1);
  Executor executor(g, parameters, {.batch = 1, .optimizer = &rule});
  for (std::uint64_t step = first; step < last; ++step) {
    executor.forward({.step = step});
    executor.backward();
    executor.update();
  }
  const Parameter& p = parameters.at("out/weights");
  EXPECT_EQ(p.shape_of(0), (Shape{2, 1}));
  EXPECT_EQ(p.moments.at(0).shape(), (Shape{2, 1}));
  EXPECT_FALSE(p.has(2));
  EXPECT_TRUE(parameters.get(p, 2).empty());
  const float weight = parameters.get(p)[0];
  const auto all = parameters.get(p, 0), some = parameters.get(p, 1);
  EXPECT_EQ(all[0], 0);
  EXPECT_NEAR(all[1] / weight, static_cast<double>(last - first), 1e-4);
  return static_cast<int>(std::lround(some[1] / weight));
}

TEST(Every, RunsInItsStepsAlone) {
  for (const auto& name : network_contexts()) {
    Context& where = context(name);
    CountingRule rule;
    rule.every = {5, 3};
    EXPECT_EQ(runs(where, rule, 0, 3), 0) << "before the first";
    EXPECT_EQ(runs(where, rule, 0, 4), 1);
    EXPECT_EQ(runs(where, rule, 0, 14), 3) << "3, 8 and 13";
    EXPECT_EQ(runs(where, rule, 7, 9), 1) << "a run that was resumed in step 7";
    EXPECT_EQ(runs(where, rule, 9, 13), 0);
    rule.every = {};
    EXPECT_EQ(runs(where, rule, 7, 13), 6);
  }
}

/// A device that records the calls of a step does not record those that are not due.
TEST(Every, RunsInItsStepsOnADeviceThatCapturesWork) {
  const auto where = make_fake_async_context();
  CountingRule rule;
  rule.every = {5, 3};
  EXPECT_EQ(runs(*where, rule, 0, 19), 4);
  EXPECT_EQ(runs(*where, rule, 7, 20), 3);
}

TEST(Every, ShowsInReports) {
  Context& where = context(network_contexts().back());
  const Graph g = one_weight();
  CountingRule rule;
  rule.every = {5, 3};
  Parameters parameters(g, where, 1);
  const Plan plan(g, parameters, {.batch = 1, .optimizer = &rule});
  PlanRow found;
  for (const PlanRow& r : plan.rows())
    if (r.op == "of_some") found = r;
  EXPECT_EQ(found.period, 5u);
  found.milliseconds = 10;
  EXPECT_EQ(found.milliseconds_per_step(), 2);
  std::ostringstream text;
  plan.print(text);
  EXPECT_NE(text.str().find("of_some, every 5 steps"), std::string::npos) << text.str();
  rule.every = {4, 3};
  Parameters others(g, where, 1);
  EXPECT_NE(Plan(g, others, {.batch = 1, .optimizer = &rule}).hash(), plan.hash()) << "ranks compare plans";
}

/// Values in the arena are gone in the next step.
TEST(Every, RefusesValuesOfOtherSteps) {
  Context& where = context(network_contexts().back());
  const Graph g = one_weight();
  CountingRule rule;
  rule.through_arena = true;
  Parameters parameters(g, where, 1);
  const Plan plan(g, parameters, {.batch = 1, .optimizer = &rule});
  rule.every = {5, 3};
  Parameters others(g, where, 1);
  try {
    const Plan refused(g, others, {.batch = 1, .optimizer = &rule});
    FAIL() << "was not refused";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("keep it in a state"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace keelson::testing
