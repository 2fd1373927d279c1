#include "engine/train/growth.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/contexts.hpp"
#include "tests/train/resumed.hpp"
#include "tests/train/support.hpp"

/// Networks that gain units while they train.
namespace keelson::testing {
namespace {

using UnitCounts = std::map<std::string, std::int64_t>;

Graph narrow_network() {
  Graph g;
  auto x = g.input("x", {2, 6, 6, 6});
  auto h = max_pool(leaky_relu(conv(x, {.filters = 4}, "conv1"), 0.3f), 2);
  h = relu(dense(flatten(h), 6, "dense1"));
  h = leaky_relu(dense(h, 5, "dense2"), 0.3f);
  auto p = dense(h, 2, "dense3");
  g.set_output("prediction", p);
  mse(p, g.input("y", {2}));
  return g;
}

RunState state_after(const Graph& g, std::int64_t epoch, std::int64_t best_epoch = 0) {
  RunState s;
  s.epoch = epoch;
  s.best_epoch = best_epoch;
  s.topology = Topology(g).to_text();
  return s;
}

class GrowthTest : public ::testing::Test {
 protected:
  /// The units of the groups that grow before this epoch.
  UnitCounts grown(const GrowthOptions& options, const RunState& state) {
    Growth growth(options, task_);
    const auto change = growth(state, parameters_);
    EXPECT_EQ(change.has_value(), growth.last_event().has_value());
    return change ? growth.last_event()->units : UnitCounts();
  }
  std::string refusal(std::map<std::string, WidthRange> widths, std::optional<LayerWidth> parameters = {}) {
    return message_of<InputError>(
        [&] { starting_network(graph_, {.widths = std::move(widths), .parameters = parameters}); });
  }

  /// What becomes of the network of options_ before the epoch of state_.
  std::optional<NetworkChange> next() {
    Growth growth(options_, task_);
    auto change = growth(state_, parameters_);
    last_ = growth.last_event();
    if (change)
      for (const auto& [name, values] : change->observed) state_.observed[name] = values;
    return change;
  }
  /// The epoch that is done has the best validation.
  void validate(double metric) {
    state_.best_metric = metric;
    state_.best_epoch = state_.epoch;
  }

  Context& context_ = context(network_contexts().back());
  Graph graph_ = narrow_network();
  Parameters parameters_{graph_, context_, 3};
  CubeDataset data_{40};
  Growth::Task task_{.graph = graph_, .training = data_, .seed = 5};
  RunState state_ = [this] {
    RunState s = state_after(graph_, 2, 0);
    s.best_metric = 0.5;
    return s;
  }();
  GrowthOptions options_{
      .widths = {{"dense1", {.most = {.units = 8}}}, {"dense2", {.most = {.units = 8}}}}, .patience = 2, .undo = 2};
  std::optional<GrowthEvent> last_;
  GrowthOptions all_{.widths = {{"*", {.most = {.times = 2}}}}, .one_layer = false};
};

TEST_F(GrowthTest, WaitsForValidationsThatAreNotBetter) {
  const UnitCounts everywhere{{"conv1", 6}, {"dense1", 9}, {"dense2", 8}};
  EXPECT_EQ(grown(all_, state_after(graph_, 2)), UnitCounts());
  EXPECT_EQ(grown(all_, state_after(graph_, 3)), everywhere);
  EXPECT_EQ(grown(all_, state_after(graph_, 8, 6)), UnitCounts()) << "the best validation was after epoch 6";
  RunState changed = state_after(graph_, 8, 2);
  EXPECT_EQ(grown(all_, changed), everywhere);
  changed.observed[network_changes_entry] = {4, 6};
  EXPECT_EQ(grown(all_, changed), UnitCounts()) << "the network has changed after epoch 6";
  auto at = all_;
  at.epochs = {2, 7};
  EXPECT_EQ(grown(at, state_after(graph_, 7, 7)), everywhere);
  EXPECT_EQ(grown(at, state_after(graph_, 8, 2)), UnitCounts());
}

TEST_F(GrowthTest, EndsAtTheMostUnits) {
  auto options = all_;
  options.widths = {{"conv1", {.most = {.units = 5}}}, {"dense2", {.most = {.times = 3}}}};
  EXPECT_EQ(grown(options, state_after(graph_, 3)), (UnitCounts{{"conv1", 5}, {"dense2", 8}}));
  const Graph wide = change_channels(graph_, {{"conv1", {0, 1, 2, 3, -1}}}).graph;
  Parameters wider(wide, context_, 3);
  Growth growth(options, task_);
  const auto change = growth(state_after(wide, 3), wider);
  ASSERT_TRUE(change);
  EXPECT_EQ(growth.last_event()->units, (UnitCounts{{"dense2", 8}})) << "times 3 of the units at first";
}

TEST_F(GrowthTest, BeginsWithTheLeastUnits) {
  auto options = all_;
  options.widths = {{"*", {.least = {.times = 0.5}}}, {"dense2", {.least = {.units = 4}, .most = {.units = 9}}}};
  const Graph start = starting_network(graph_, options);
  EXPECT_EQ(Topology(start).widths(), (UnitCounts{{"conv1", 2}, {"dense1", 3}, {"dense2", 4}, {"dense3", 2}}));
  Parameters few(start, context_, 3);
  Growth growth(options, task_);
  ASSERT_TRUE(growth(state_after(start, 3), few));
  EXPECT_EQ(growth.last_event()->units, (UnitCounts{{"conv1", 3}, {"dense1", 5}, {"dense2", 6}}));
}

/// dense2 has no effect at first. So the weights of new units of dense1, which dense2 reads, have no gradients; those
/// of new units of dense2, which dense3 reads, have some.
TEST_F(GrowthTest, OneLayerGrowsWhereGradientsAreLargest) {
  Parameter& p = parameters_.at("dense3/weights");
  parameters_.set(p, std::vector<float>(static_cast<std::size_t>(p.shape.elements())));
  auto options = all_;
  options.one_layer = true;
  Growth growth(options, task_);
  const auto change = growth(state_after(graph_, 3), parameters_);
  ASSERT_TRUE(change);
  const auto& event = growth.last_event();
  EXPECT_EQ(event->units, (UnitCounts{{"dense2", 8}}));
  EXPECT_EQ(event->units_before, (UnitCounts{{"dense2", 5}}));
  EXPECT_EQ(event->gradients.at("dense1"), 0);
  EXPECT_EQ(event->gradients.at("conv1"), 0);
  EXPECT_GT(event->gradients.at("dense2"), 0);
  EXPECT_EQ(event->parameters, change->graph.parameter_count());
  EXPECT_NE(change->text.find("growth: dense2 5 -> 8 (copy); parameters "), std::string::npos) << change->text;
}

/// The measure is the gradient of the weights as the executor has it, per weight that multiplies new units.
TEST_F(GrowthTest, GradientsAreThoseOfTheWeights) {
  GrowthOptions options{.widths = {{"dense1", {.most = {.times = 2}}}, {"dense2", {.most = {.times = 2}}}},
                        .probe = 40,
                        .probe_batch = 40};
  Growth growth(options, task_);
  ASSERT_TRUE(growth(state_after(graph_, 3), parameters_));
  const auto change =
      change_channels(graph_, {{"dense1", {0, 1, 2, 3, 4, 5, -1, -1, -1}}, {"dense2", {0, 1, 2, 3, 4, -1, -1, -1}}});
  Parameters wide = parameters_.remap(change.graph, change.maps);
  for (const auto& [name, first] : std::map<std::string, std::size_t>{{"dense2/weights", 6}, {"dense3/weights", 5}}) {
    Parameter& p = wide.at(name);
    auto values = wide.get(p);
    const auto row = static_cast<std::size_t>(p.shape[1]);
    for (std::size_t e = 0; e < values.size(); ++e)
      if (e % row >= first) values[e] = 0;
    wide.set(p, values);
  }
  Executor executor(change.graph, wide, {.batch = 40});
  std::vector<float> x(40 * 2 * 216), y(80);
  for (std::int64_t i = 0; i < 40; ++i) {
    void* const fields[] = {x.data() + 432 * i, y.data() + 2 * i};
    data_.read(i, fields);
  }
  for (const auto& [name, values] : {std::pair("x", &x), std::pair("y", &y)})
    context_.device().copy_from_host(executor.input(name).raw(), values->data(), values->size() * sizeof(float));
  executor.forward({.inverse_samples = 1.0f / 40});
  executor.backward();
  const auto gradient = executor.gradient("dense3/weights");
  double squares = 0;
  for (const std::size_t i : {5, 6, 7, 13, 14, 15}) squares += double{gradient[i]} * gradient[i];
  EXPECT_NEAR(growth.last_event()->gradients.at("dense2"), std::sqrt(squares / 6), 1e-4 * std::sqrt(squares / 6));
}

TEST_F(GrowthTest, EndsAtItsBudgets) {
  auto options = all_;
  options.one_layer = true;
  options.widths = {{"dense1", {.most = {.units = 60}}}, {"dense2", {.most = {.units = 6}}}};
  const auto count = graph_.parameter_count();
  const auto growth_of = [&](std::int64_t most) {
    auto limited = options;
    limited.parameters = {.units = most};
    return grown(limited, state_after(graph_, 3));
  };
  EXPECT_EQ(growth_of(count + 1), UnitCounts());
  EXPECT_EQ(growth_of(count + 9), (UnitCounts{{"dense2", 6}})) << "6 + 1 + 2 more; dense1 would need more";
  options.parameters = {.times = 1};
  EXPECT_EQ(grown(options, state_after(graph_, 3)), UnitCounts());
  options.parameters.reset();
  options.events = 2;
  RunState state = state_after(graph_, 3);
  state.observed[growth_entry] = {1, -1, 0, -1};
  EXPECT_FALSE(grown(options, state).empty());
  state.observed[growth_entry] = {2, -1, 0, -1};
  EXPECT_EQ(grown(options, state), UnitCounts()) << "there have been two events";
  EXPECT_EQ(refusal({{"dense1", {.most = {.units = 60}}}}, LayerWidth{.times = 0.5}),
            fmt::format("the network has {} parameters at first, but at most {}: give more parameters, or fewer units "
                        "at first",
                        count, std::llround(0.5 * static_cast<double>(count))));
}

/// When no layer can become wider, layers get copies.
TEST_F(GrowthTest, LayersGetCopies) {
  auto options = all_;
  options.widths = {};
  options.depth = {{"*", {.most = 1}}, {"dense1", {.most = 0}}};
  options.undo = 0;
  Growth growth(options, task_);
  const auto change = growth(state_after(graph_, 3), parameters_);
  ASSERT_TRUE(change);
  EXPECT_EQ(growth.last_event()->copies, (UnitCounts{{"conv1", 1}, {"dense2", 1}}));
  EXPECT_EQ(change->text.substr(0, 43), "growth: copy 1 of conv1, copy 1 of dense2; ") << change->text;
  Parameters deeper = changed_parameters(parameters_, *change, {});
  EXPECT_FALSE(growth(state_after(change->graph, 8), deeper)) << "all have their copies";
  options.one_layer = true;
  Growth one(options, task_);
  ASSERT_TRUE(one(state_after(graph_, 3), parameters_));
  const auto& event = *one.last_event();
  ASSERT_EQ(event.copies.size(), 1U);
  EXPECT_EQ(event.gradients.size(), 2U);
  for (const auto& [layer, gradient] : event.gradients)
    EXPECT_LE(gradient, event.gradients.at(event.copies.begin()->first)) << layer;
  options.widths = {{"dense1", {.most = {.units = 7}}}};
  EXPECT_EQ(grown(options, state_after(graph_, 3)), (UnitCounts{{"dense1", 7}})) << "wider first";
  options.depth = {{"conv1", {.least = 2, .most = 3}}};
  const Graph start = starting_network(graph_, options);
  EXPECT_EQ(copies_of(Topology(start)), (LayerCopies{{"conv1", 2}}));
}

/// The layers in turn, as long as no validation is better.
TEST_F(GrowthTest, UndoesWhatDidNotHelp) {
  options_.depth = {{"conv1", {.most = 1}}};
  std::vector<std::string> grown;
  for (int event = 0; event < 3; ++event) {
    SCOPED_TRACE(event);
    const auto change = next();
    ASSERT_TRUE(change);
    EXPECT_TRUE(change->may_be_undone);
    EXPECT_EQ(change->kind, NetworkChange::Kind::replace);
    const auto& e = *last_;
    grown.push_back(e.units.empty() ? e.copies.begin()->first : e.units.begin()->first);
    ++state_.epoch;
    EXPECT_FALSE(next()) << "it has two epochs";
    ++state_.epoch;
    const auto undo = next();
    ASSERT_TRUE(undo);
    EXPECT_EQ(undo->kind, NetworkChange::Kind::undo);
    EXPECT_EQ(undo->text, fmt::format("growth undone: no validation was better since epoch {}", state_.epoch - 2));
  }
  std::ranges::sort(grown.begin(), grown.begin() + 2);
  EXPECT_EQ(grown, (std::vector<std::string>{"dense1", "dense2", "conv1"}));
  EXPECT_FALSE(next()) << "none is left";
  state_.epoch += 5;
  EXPECT_FALSE(next());
  validate(0.4);
  state_.epoch += 2;
  ASSERT_TRUE(next()) << "after a better validation all may grow again";
  ++state_.epoch;
  validate(0.3);
  const auto keep = next();
  ASSERT_TRUE(keep);
  EXPECT_EQ(keep->kind, NetworkChange::Kind::keep);
  EXPECT_EQ(state_.observed.at(growth_entry), (std::vector<double>{1, -1, 0, 0.4}));
}

/// An improvement below the threshold is none, whichever way the metric goes.
TEST_F(GrowthTest, RoundingIsNoImprovement) {
  for (const double sign : {1.0, -1.0}) {
    task_.higher_is_better = sign < 0;
    for (const double gain : {0.9e-4, 1.1e-4}) {
      SCOPED_TRACE(fmt::format("{} {}", sign, gain));
      state_ = state_after(graph_, 2, 0);
      state_.best_metric = sign * 0.5;
      ASSERT_TRUE(next());
      ++state_.epoch;
      validate(sign * 0.5 * (1 - gain));
      const auto first = next();
      EXPECT_EQ(first.has_value(), gain > 1e-4);
      ++state_.epoch;
      if (first) {
        EXPECT_EQ(first->kind, NetworkChange::Kind::keep);
        EXPECT_FALSE(next()) << "it waits for validations that are not better";
        continue;
      }
      const auto undo = next();
      ASSERT_TRUE(undo);
      EXPECT_EQ(undo->kind, NetworkChange::Kind::undo);
      const auto again = next();
      ASSERT_TRUE(again) << "the next layer, at once";
      EXPECT_EQ(again->kind, NetworkChange::Kind::replace);
    }
  }
}

/// A checkpoint has no infinite numbers.
TEST_F(GrowthTest, NeedsNoValidation) {
  options_.epochs = {2};
  state_ = state_after(graph_, 2, -1);
  ASSERT_TRUE(next());
  for (const double number : state_.observed.at(growth_entry)) EXPECT_TRUE(std::isfinite(number));
}

/// All ranks know the same times.
TEST_F(GrowthTest, EndsWhereStepsAreSlow) {
  options_.milliseconds = 20;
  const auto takes = [&](double ms) { state_.observed[step_ms_entry] = {ms}; };
  takes(20.1);
  EXPECT_FALSE(next()) << "steps are too slow already";
  takes(19.9);
  ASSERT_TRUE(next());
  ++state_.epoch;
  validate(0.4);
  takes(22.5);
  const auto undo = next();
  ASSERT_TRUE(undo) << "although the validation was better";
  EXPECT_EQ(undo->kind, NetworkChange::Kind::undo);
  EXPECT_EQ(undo->text, "growth undone: a step takes 22.5 ms, more than 20");
  EXPECT_FALSE(next()) << "the time is that of the network of before";
  ++state_.epoch;
  takes(18);
  ASSERT_TRUE(next()) << "another layer";
  ++state_.epoch;
  validate(0.3);
  const auto keep = next();
  ASSERT_TRUE(keep);
  EXPECT_EQ(keep->kind, NetworkChange::Kind::keep);
  options_.milliseconds = 0;
  options_.epochs = {2};
  state_ = state_after(graph_, 2);
  takes(1e9);
  EXPECT_TRUE(next()) << "no budget";
  options_.milliseconds = 20;
  EXPECT_FALSE(next());
}

TEST_F(GrowthTest, Refusals) {
  EXPECT_EQ(refusal({{"dense9", {.most = {.times = 2}}}}),
            "the layer 'dense9' cannot grow: the network has none of this name; expected one of conv1, dense1, dense2");
  EXPECT_NE(refusal({{"dense3", {.most = {.units = 8}}}})
                .find("'dense3' cannot grow: inputs, outputs or other layers depend"),
            std::string::npos);
  EXPECT_EQ(refusal({{"dense1", {.most = {.units = 4}}}}),
            "'dense1' has 6 units at first, but at most 4: give 6 or more");
  EXPECT_EQ(refusal({{"dense1", {.least = {.units = 7}}}}),
            "'dense1' has 7 units at first, but the network has 6: give 6 or fewer");
  EXPECT_NE(refusal({{"dense1", {.most = {.units = 6}}}}).find("no layer can grow"), std::string::npos);
  EXPECT_EQ(parse_grown_rate("lemon"), GrownRate::lemon);
  EXPECT_THROW(parse_grown_rate("slow"), InputError);
}

TEST(GrownRate, FollowsItsRule) {
  Schedule s{.kind = Schedule::Kind::linear, .base = 1, .final = 0, .epochs = 10, .warmup_epochs = 2};
  RunState state;
  state.global_batch = state.train_samples = 4;
  state.epoch = 6;
  const auto rate = [&](GrownRate rule) { return grown_rate(rule, s, 10, state); };
  for (const auto rule : {GrownRate::schedule, GrownRate::lemon, GrownRate::net2net})
    EXPECT_EQ(rate(rule), s.at(6)) << "nothing has changed yet";
  state.observed[network_changes_entry] = {2, 5};
  EXPECT_EQ(rate(GrownRate::schedule), s.at(6));
  EXPECT_EQ(rate(GrownRate::net2net), 0.1 * s.at(6));
  EXPECT_NEAR(rate(GrownRate::lemon), s.at(2 + 8 * 1.0 / 5), 1e-12);
  state.epoch = 5;
  EXPECT_NEAR(rate(GrownRate::lemon), s.at(2), 1e-12) << "the largest rate again";
}

TrainerOptions growing_options(const Graph& graph, const Dataset& data, WidenMethod method) {
  auto o = small_options();
  o.epochs = 6;
  const GrowthOptions growth{.widths = {{"*", {.most = {.times = 3}}}},
                             .method = method,
                             .epochs = {1, 3, 4},
                             .rate = GrownRate::lemon,
                             .probe = 12};
  o.change_network = Growth(growth, {.graph = graph, .training = data, .seed = o.seed});
  o.learning_rate = [schedule = o.schedule](const RunState& state) {
    return grown_rate(GrownRate::lemon, schedule, 6, state);
  };
  return o;
}

/// Before, between and after the events.
TEST(GrowthTraining, ContinuesBitForBit) {
  for (const auto method : {WidenMethod::copy, WidenMethod::zero}) {
    const Graph graph = narrow_network();
    const CubeDataset data(18);
    Context& where = context(network_contexts().back());
    const auto o = growing_options(graph, data, method);
    Training whole(narrow_network(), o, where);
    whole.go();
    EXPECT_EQ(whole.trainer.state().observed.at(network_changes_entry), (std::vector<double>{1, 3, 4}));
    const auto first = Topology(graph).widths(), last = Topology::parse(whole.trainer.state().topology).widths();
    std::int64_t added = 0;
    for (const auto& [name, width] : first) added += last.at(name) - width;
    EXPECT_GE(added, 6);
    EXPECT_EQ(last.at("dense3"), 2);
    EXPECT_LT(whole.recorder.losses.back(), whole.recorder.losses.front());
    expect_same_when_resumed(narrow_network, o, where, whole, {3, 5, 15, 17, 28});
  }
}

/// Remembers what becomes of the network, and compares the network after an undo with that before the event.
struct ChangeRecorder final : TrainObserver {
  explicit ChangeRecorder(const Training& training) : parameters(training.parameters) {}

  const Parameters& parameters;
  std::map<std::int64_t, std::vector<float>> after_epoch;
  std::vector<std::string> texts;
  std::int64_t undone = 0;

  void on_epoch(const RunState& s, const EpochRecord&, const Evaluation*) override {
    after_epoch[s.epoch] = everything(parameters);
  }
  void on_network_change(const RunState& s, const Graph&, const std::string& text) override {
    texts.push_back(text);
    const std::string undo = "growth undone: no validation was better since epoch ";
    if (!text.starts_with(undo)) return;
    ++undone;
    after_epoch[s.epoch] = everything(parameters);
    EXPECT_EQ(after_epoch.at(s.epoch), after_epoch.at(std::stoll(text.substr(undo.size())))) << text;
  }
};

TrainerOptions undoing_options(const Graph& graph, const Dataset& data, double rate) {
  auto o = small_options();
  o.epochs = 12;
  o.schedule.base = rate;
  const GrowthOptions growth{.widths = {{"dense1", {.most = {.times = 2}}}, {"conv1", {.most = {.units = 6}}}},
                             .depth = {{"*", {.most = 1}}},
                             .patience = 1,
                             .probe = 12};
  o.change_network = Growth(growth, {.graph = graph, .training = data, .seed = o.seed});
  return o;
}

/// Steps up the gradient make every validation worse, so all layers are tried, and the network ends as it began.
TEST(GrowthUndone, EveryEventWithoutABetterValidation) {
  const Graph graph = narrow_network();
  const CubeDataset data(18);
  auto o = undoing_options(graph, data, 0.02);
  o.epochs = 12;
  o.evaluation = {};  // the loss counts
  o.learning_rate = [](const RunState&) { return -0.01; };
  Training whole(narrow_network(), o, context(network_contexts().back()));
  ChangeRecorder changes(whole);
  whole.trainer.run({&changes});
  EXPECT_EQ(changes.undone, 5) << "two layers become wider, three get copies";
  EXPECT_EQ(changes.texts.size(), 10U);
  const RunState& state = whole.trainer.state();
  EXPECT_EQ(state.topology, Topology(graph).to_text());
  EXPECT_FALSE(state.before);
  EXPECT_FALSE(state.observed.contains(network_changes_entry));
}

/// A run that goes on within the window of an event, which is then undone or stays.
TEST(GrowthUndone, ContinuesBitForBit) {
  const Graph graph = narrow_network();
  const CubeDataset data(18);
  Context& where = context(network_contexts().back());
  const auto o = undoing_options(graph, data, 0.12);
  Training whole(narrow_network(), o, where);
  ChangeRecorder changes(whole);
  whole.trainer.run({&changes});
  EXPECT_GT(changes.undone, 0);
  EXPECT_GT(std::ssize(changes.texts), 2 * changes.undone) << "some events stay";
  expect_same_when_resumed(narrow_network, o, where, whole, {8, 14, 20, 26, 32, 38, 44, 50, 56});
}

}  // namespace
}  // namespace keelson::testing
