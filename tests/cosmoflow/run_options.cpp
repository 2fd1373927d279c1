#include "apps/cosmoflow/run_options.hpp"

#include <gtest/gtest.h>

#include "apps/cosmoflow/task.hpp"
#include "engine/base/error.hpp"
#include "engine/optim/adam.hpp"
#include "engine/optim/sgd.hpp"

namespace keelson::cosmoflow {
namespace {

/// The options of a subcommand, with these arguments and then this recipe.
struct Parsed {
  explicit Parsed(const std::vector<std::string>& arguments, const std::string& recipe_name = "") {
    declare(options, subcommand);
    subcommand.parse(arguments);
    if (!recipe_name.empty()) subcommand.fill(app::find_recipe(recipes(), recipe_name), "recipe");
  }
  RunOptions options;
  app::Subcommand subcommand;
};

TEST(RunOptions, EveryRecipeIsAccepted) {
  ASSERT_EQ(recipes().size(), 3u);
  for (const auto& [name, recipe] : recipes()) {
    Parsed p({}, name);
    EXPECT_NO_THROW(check(p.options)) << name;
    const auto values = p.subcommand.values();
    for (const auto& [key, value] : recipe) EXPECT_EQ(values.at(key), value) << name << " " << key;
  }
  EXPECT_THROW(app::find_recipe(recipes(), "none"), InputError);
}

TEST(RunOptions, TheUsersChoiceWins) {
  Parsed p({"--lr", "0.5", "--no-augment"}, "demo");
  EXPECT_EQ(p.options.lr, 0.5);
  EXPECT_EQ(p.options.epochs, 20);
  EXPECT_FALSE(p.options.augment);
}

TEST(RunOptions, ComeBackFromTheirText) {
  Parsed a({"--channels", "2,0", "--no-shuffle", "--dropout", "0.25", "--schedule", "steps", "--decay", "3:0.5,9:0.1"},
           "mlperf-64");
  Parsed b({});
  b.subcommand.fill(a.subcommand.values(), "checkpoint");
  EXPECT_EQ(b.subcommand.values(), a.subcommand.values());
  EXPECT_EQ(b.options.channels, (std::vector<int>{2, 0}));
  EXPECT_FALSE(b.options.shuffle);
  EXPECT_EQ(b.options.dropout, 0.25f);
  EXPECT_EQ(b.options.l2, 0.01f);
  Parsed c({});
  EXPECT_THROW(c.subcommand.fill({{"epochs", "many"}}, "checkpoint"), InputError);
}

TEST(Task, PublishedRecipeOfMlperf) {
  const Parsed p({}, "mlperf-64");
  const auto schedule = make_schedule(p.options);
  EXPECT_DOUBLE_EQ(schedule.at(2), 0.001);
  EXPECT_DOUBLE_EQ(schedule.at(20), 0.00025);
  EXPECT_DOUBLE_EQ(schedule.at(40), 0.000125);
  const auto made = make_optimizer(p.options);
  const auto& optimizer = dynamic_cast<const Sgd&>(*made);
  EXPECT_EQ(optimizer.momentum, 0.9f);
  // TensorFlow's l2(x) adds x w^2 to the loss, 2 x w to the gradient; only the first two dense layers have it.
  EXPECT_FLOAT_EQ(optimizer.update_for("dense1/weights").weight_decay, 0.02f);
  EXPECT_FLOAT_EQ(optimizer.update_for("dense2/weights").weight_decay, 0.02f);
  for (const char* other : {"dense1/bias", "dense3/weights", "conv1/weights"})
    EXPECT_EQ(optimizer.update_for(other).weight_decay, 0) << other;
  EXPECT_EQ(batch_per_replica(p.options, {.data = 16}), 4);
  EXPECT_THROW(batch_per_replica(p.options, {.data = 5}), InputError);
}

TEST(Task, PublishedRecipeOfThePaper) {
  const Parsed p({}, "paper");
  const auto schedule = make_schedule(p.options);
  EXPECT_DOUBLE_EQ(schedule.at(0), 1e-3);
  EXPECT_DOUBLE_EQ(schedule.at(50), 5.5e-4);
  EXPECT_DOUBLE_EQ(schedule.at(100), 1e-4);
  const auto made = make_optimizer(p.options);
  const auto u = dynamic_cast<const Adam&>(*made).update_for("conv1/weights");
  EXPECT_EQ(u.kind, ops::UpdateKind::adam);
  EXPECT_EQ(u.larc, ops::LarcMode::clip);
  EXPECT_FLOAT_EQ(u.larc_eta, 0.002f);
  EXPECT_FLOAT_EQ(u.larc_floor, 1.0f / 16000);
  EXPECT_FALSE(u.larc_relative);
}

}  // namespace
}  // namespace keelson::cosmoflow
