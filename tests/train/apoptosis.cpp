#include "engine/train/apoptosis.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/contexts.hpp"
#include "tests/train/resumed.hpp"
#include "tests/train/support.hpp"

/// Networks that lose units while they train.
namespace keelson::testing {
namespace {

using Widths = std::map<std::string, std::int64_t>;

Graph wide_network() {
  Graph g;
  auto x = g.input("x", {2, 6, 6, 6});
  auto h = max_pool(leaky_relu(conv(x, {.filters = 12}, "conv1"), 0.3f), 2);
  h = relu(dense(flatten(h), 20, "dense1"));
  h = leaky_relu(dense(h, 16, "dense2"), 0.3f);
  auto p = dense(h, 2, "dense3");
  g.set_output("prediction", p);
  mse(p, g.input("y", {2}));
  return g;
}

RunState state_of(const Graph& g, std::int64_t epoch) {
  RunState s;
  s.epoch = epoch;
  s.topology = Topology(g).to_text();
  return s;
}

/// Units 4 to 7 of dense1 are never positive, units 8 to 11 are twice units 12 to 15, and all others are active.
void plant(Parameters& parameters) {
  Parameter &weights = parameters.at("dense1/weights"), &bias = parameters.at("dense1/bias");
  auto w = parameters.get(weights), b = parameters.get(bias);
  const auto row = w.size() / b.size();
  for (std::size_t u = 4; u < 12; ++u)
    for (std::size_t i = 0; i < row; ++i) w[u * row + i] = u < 8 ? 0 : 2 * w[(u + 4) * row + i];
  for (std::size_t u = 0; u < b.size(); ++u) b[u] = u < 4 || u >= 12 ? 2.0f : u < 8 ? -1.0f : 4.0f;
  parameters.set(weights, w);
  parameters.set(bias, b);
}

class ApoptosisTest : public ::testing::Test {
 protected:
  ApoptosisTest() { plant(parameters_); }

  Context& context_ = context(network_contexts().back());
  Graph graph_ = wide_network();
  Parameters parameters_{graph_, context_, 3};
  CubeDataset data_{256};
  Apoptosis::Task task_{.graph = graph_, .training = data_, .epochs = 10, .seed = 5};
  ApoptosisOptions options_{.criteria = {.constant = 1e-9, .no_effect = 1e-9, .angle = 1},
                            .share = 0.2,
                            .redundant = false,
                            .multiple = 1,
                            .rise = 0.01,
                            .probe = 32,
                            .first = 0};
};

TEST_F(ApoptosisTest, RemovesPlantedUnitsAndKeepsTheFunction) {
  options_.share = 1;
  Apoptosis apoptosis(options_, task_);
  const auto change = apoptosis(state_of(graph_, 1), parameters_);
  ASSERT_TRUE(change);
  const auto& event = apoptosis.last_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->units, (Widths{{"dense1", 12}}));
  EXPECT_EQ(event->reasons, (Widths{{"dead", 4}, {"twin", 4}}));
  EXPECT_EQ(event->undone, 0);
  EXPECT_NEAR(event->loss, event->loss_before, 1e-6 * event->loss_before);
  EXPECT_EQ(event->parameters, change->graph.parameter_count());
  EXPECT_LT(event->parameters, event->parameters_before);
  EXPECT_EQ(Topology(change->graph).widths().at("dense1"), 12);
  EXPECT_NE(change->text.find("dense1 20 -> 12"), std::string::npos) << change->text;
  EXPECT_NE(change->text.find("4 dead, 4 twin"), std::string::npos) << change->text;
}

TEST_F(ApoptosisTest, FollowsItsSchedule) {
  const auto removes = [&](std::int64_t epoch, ApoptosisOptions options) {
    Apoptosis apoptosis(options, task_);
    const auto change = apoptosis(state_of(graph_, epoch), parameters_);
    return change ? 20 - Topology(change->graph).widths().at("dense1") : 0;
  };
  EXPECT_EQ(removes(0, options_), 0) << "before the first epoch";
  EXPECT_EQ(removes(1, options_), 4) << "a fifth";
  EXPECT_EQ(removes(6, options_), 4) << "at 60 %";
  EXPECT_EQ(removes(7, options_), 0) << "after 60 %";
  auto later = options_;
  later.first = 0.3;
  EXPECT_EQ(removes(2, later), 0) << "before 30 %";
  EXPECT_EQ(removes(3, later), 4) << "at 30 %";
  auto some = options_;
  some.share = 1;
  some.least_units = 17;
  EXPECT_EQ(removes(1, some), 3) << "17 units stay";
}

/// 20 units: 4 may go, which leaves a multiple of 8. 2 may go: 18 units are no multiple, so 16 stay, too.
TEST_F(ApoptosisTest, LeavesMultiples) {
  options_.multiple = 8;
  for (const double share : {0.2, 0.1}) {
    options_.share = share;
    Apoptosis apoptosis(options_, task_);
    const auto change = apoptosis(state_of(graph_, 1), parameters_);
    ASSERT_TRUE(change);
    EXPECT_EQ(Topology(change->graph).widths().at("dense1"), 16);
  }
  options_.least_units = 17;  // no multiple of 8 is left above
  EXPECT_FALSE(Apoptosis(options_, task_)(state_of(graph_, 1), parameters_));
}

/// Without the criteria of single units, the planted units are redundant, and so are some others.
TEST_F(ApoptosisTest, RemovesRedundantUnits) {
  options_.criteria = {.constant = 0, .no_effect = 0, .angle = 0};
  options_.redundant = true;
  options_.share = 0.6;
  Apoptosis apoptosis(options_, task_);
  ASSERT_TRUE(apoptosis(state_of(graph_, 1), parameters_));
  const auto& event = apoptosis.last_event();
  EXPECT_LE(event->units.at("dense1"), 12);
  EXPECT_GT(event->reasons.at("redundant"), 0);
  EXPECT_LE(event->loss, event->loss_before * 1.01);
}

TEST_F(ApoptosisTest, UndoesWhatRaisesTheLoss) {
  options_.share = 1;
  options_.rise = -1;  // no loss is as low
  Apoptosis apoptosis(options_, task_);
  EXPECT_FALSE(apoptosis(state_of(graph_, 1), parameters_));
  EXPECT_FALSE(apoptosis.last_event());
}

/// All units may go. Each try has half of the units of the last one, until the loss stays.
TEST(ApoptosisTries, AreSmallerAndSmaller) {
  auto o = small_options();
  o.epochs = 20;
  Training trained(wide_network(), o, context(network_contexts().back()), 32);
  trained.go();
  ApoptosisOptions options{.criteria = {.constant = 0, .no_effect = 1e9, .angle = 0},
                           .share = 1,
                           .least_units = 1,
                           .multiple = 1,
                           .rise = 1e-6,
                           .probe = 32,
                           .most_tries = 12};
  Apoptosis apoptosis(options, {.graph = trained.graph, .training = trained.training, .epochs = 40, .seed = 2});
  ASSERT_TRUE(apoptosis(state_of(trained.graph, 20), trained.parameters));
  const auto& event = apoptosis.last_event();
  EXPECT_GE(event->undone, 1);
  EXPECT_LE(event->loss, event->loss_before * (1 + 1e-6));
}

TrainerOptions losing_options(const Graph& graph, const Dataset& data) {
  auto o = small_options();
  o.epochs = 6;
  auto options = ApoptosisOptions::of("aggressive");
  options.probe = 16;
  options.least_units = 4;
  options.multiple = 1;
  options.rise = 0.5;
  o.change_network = Apoptosis(options, {.graph = graph, .training = data, .epochs = o.epochs, .seed = o.seed});
  return o;
}

/// Before, between and after the events.
TEST(ApoptosisTraining, ContinuesBitForBit) {
  const Graph graph = wide_network();
  const CubeDataset data(18);
  Context& where = context(network_contexts().back());
  const auto o = losing_options(graph, data);
  Training whole(wide_network(), o, where);
  whole.go();
  const auto widths = Topology::parse(whole.trainer.state().topology).widths();
  EXPECT_LT(widths.at("dense1"), 20);
  EXPECT_EQ(widths.at("dense3"), 2);
  EXPECT_LT(whole.recorder.losses.back(), whole.recorder.losses.front());
  expect_same_when_resumed(wide_network, o, where, whole, {3, 5, 12, 15, 28});
}

TEST(ApoptosisOptions, HaveNames) {
  EXPECT_EQ(ApoptosisOptions::of("conservative").share, 0.1);
  EXPECT_EQ(ApoptosisOptions::of("aggressive").criteria.angle, 30);
  EXPECT_THROW(ApoptosisOptions::of("off"), InputError);
}

}  // namespace
}  // namespace keelson::testing
