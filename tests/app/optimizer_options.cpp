#include "apps/common/optimizer_options.hpp"

#include <gtest/gtest.h>

#include "engine/base/error.hpp"
#include "engine/optim/muon.hpp"

namespace keelson::app {
namespace {

/// The options of a subcommand, with these arguments and then these values from elsewhere.
struct Parsed {
  explicit Parsed(const std::vector<std::string>& arguments, const Config& config = {}) {
    declare(options, subcommand);
    subcommand.parse(arguments);
    subcommand.fill(config, "a recipe");
  }
  OptimizerOptions options;
  Subcommand subcommand;
};

const Config published{{"batch", "20"},       {"lr", "1"},        {"momentum", "0"},
                       {"schedule", "decay"}, {"clip-norm", "5"}, {"decay-factor", "0.5"},
                       {"flat-epochs", "4"},  {"epochs", "13"}};

TEST(OptimizerOptions, OfThePennTreebankRecipe) {
  const Parsed p({}, published);
  EXPECT_NO_THROW(check(p.options));
  const auto schedule = make_schedule(p.options);
  EXPECT_EQ(schedule.at(3.99), 1);
  EXPECT_EQ(schedule.at(4), 0.5);
  EXPECT_EQ(schedule.at(12), std::pow(0.5, 9));
  const auto optimizer = make_optimizer(p.options);
  EXPECT_TRUE(optimizer->state_names().empty());
  EXPECT_EQ(optimizer->clip_norm, 5);
}

TEST(OptimizerOptions, RulesForLeavingSamplesOut) {
  EXPECT_FALSE(prune_options(Parsed({}).options).enabled());
  const Parsed given({"--prune-samples", "kakurenbo", "--prune-ratio", "0"});
  EXPECT_NO_THROW(check(given.options));
  EXPECT_EQ(prune_options(given.options).rule, PruneRule::kakurenbo);
  EXPECT_EQ(prune_options(given.options).r(), 0);
  const Parsed again({}, given.subcommand.values());
  EXPECT_EQ(prune_options(again.options).to_string(), "kakurenbo 0");
  const Parsed plain({"--prune-samples", "infobatch"});
  EXPECT_EQ(prune_options(plain.options).r(), 0.5);
  const Parsed stored({}, plain.subcommand.values());
  EXPECT_EQ(prune_options(stored.options).r(), 0.5);
  EXPECT_THROW(check(Parsed({"--prune-ratio", "0.5"}).options), InputError);
  EXPECT_THROW(Parsed({"--prune-samples", "infobatch", "--prune-ratio", "1"}), InputError);
}

TEST(OptimizerOptions, LayerWiseOptimizers) {
  const Parsed lars({"--optimizer", "lars", "--lars-eta", "0.02", "--lars-rate-outside", "--weight-decay", "1e-4"});
  EXPECT_NO_THROW(check(lars.options));
  EXPECT_EQ(make_optimizer(lars.options)->to_string(),
            "lars momentum 0.9 eta 0.02, rate outside the momentum, weight decay 0.0001");
  const Parsed lamb({"--optimizer", "lamb", "--weight-decay", "0.01", "--clip-norm", "1", "--adapt-vectors"});
  EXPECT_NO_THROW(check(lamb.options));
  EXPECT_EQ(make_optimizer(lamb.options)->to_string(),
            "lamb betas 0.9 0.999 epsilon 1e-06, vectors too, weight decay 0.01, clip norm 1");
  const Parsed nvlamb({"--optimizer", "lamb", "--nvlamb"});
  EXPECT_NO_THROW(check(nvlamb.options));
  const Parsed again({}, nvlamb.subcommand.values());
  EXPECT_EQ(make_optimizer(again.options)->to_string(), make_optimizer(nvlamb.options)->to_string());
}

/// --momentum 0.9 is the default, which is not Muon's.
TEST(OptimizerOptions, MuonHasAMomentumOfItsOwn) {
  const Parsed plain({"--optimizer", "muon", "--weight-decay", "0.1"});
  EXPECT_NO_THROW(check(plain.options));
  EXPECT_EQ(make_optimizer(plain.options)->to_string(), Muon().to_string());
  const Parsed given({"--optimizer", "muon", "--optimizer-options",
                      "momentum=0.8,nesterov=false,ns_steps=6,adjust_lr_fn=match_rms_adamw,adamw=conv1/* out/*"});
  EXPECT_NO_THROW(check(given.options));
  EXPECT_EQ(make_optimizer(given.options)->to_string(),
            "muon momentum 0.8, 6 steps of 3.4445 -4.775 2.0315 epsilon 1e-07, rate match_rms_adamw, adamw of conv1/* "
            "out/* lr x 1 betas 0.9 0.999 epsilon 1e-08");
}

TEST(OptimizerOptions, AnySettingCanBeGiven) {
  const Parsed adam({"--optimizer", "adam", "--optimizer-options", "beta2=0.95,epsilon=1e-6"});
  EXPECT_NO_THROW(check(adam.options));
  EXPECT_EQ(make_optimizer(adam.options)->to_string(), "adam betas 0.9 0.95 epsilon 1e-06");
  EXPECT_EQ(make_optimizer(Parsed({}, adam.subcommand.values()).options)->to_string(),
            make_optimizer(adam.options)->to_string());
}

TEST(OptimizerOptions, TheUsersReplaceThoseFromElsewhere) {
  EXPECT_EQ(Parsed({"--global-batch", "40"}, published).options.batch, 1) << "--batch of the recipe";
  EXPECT_EQ(Parsed({"--batch", "3"}, {{"global-batch", "64"}}).options.global_batch, 0);
  const Config stepwise{{"schedule", "steps"}, {"decay", "3:0.5"}};
  EXPECT_EQ(Parsed({}, stepwise).options.decay, "3:0.5") << "one of the recipe's does not replace another of it";
  EXPECT_EQ(Parsed({"--schedule", "constant"}, stepwise).options.decay, "");
}

TEST(OptimizerOptions, ComeBackFromTheirText) {
  const Parsed a({"--nesterov"}, published);
  const Parsed b({}, a.subcommand.values());
  EXPECT_EQ(b.subcommand.values(), a.subcommand.values());
  EXPECT_TRUE(b.options.nesterov);
  EXPECT_EQ(b.options.decay_factor, 0.5);
}

TEST(OptimizerOptions, RefuseWhatMakesNoSense) {
  for (const std::vector<std::string>& bad : {std::vector<std::string>{"--schedule", "steps"},
                                              {"--decay", "3:0.5"},
                                              {"--schedule", "decay"},
                                              {"--nesterov", "--momentum", "0"},
                                              {"--nesterov", "--optimizer", "adam"},
                                              {"--nesterov", "--optimizer", "lars"},
                                              {"--nesterov", "--optimizer", "muon"},
                                              {"--optimizer", "muon", "--optimizer-options", "ns_steps=5.5"},
                                              {"--larc", "clip", "--optimizer", "lars"},
                                              {"--larc", "scale", "--optimizer", "lamb", "--weight-decay", "0.01"},
                                              {"--optimizer", "lamb"},
                                              {"--nvlamb"},
                                              {"--lars-rate-outside"},
                                              {"--optimizer-options", "beta1=0.8"},
                                              {"--optimizer", "adam", "--optimizer-options", "beta1=much"},
                                              {"--optimizer", "adam", "--optimizer-options", "beta1"},
                                              {"--adapt-vectors", "--optimizer", "adam"}})
    EXPECT_THROW(check(Parsed(bad).options), InputError) << bad[0];
  EXPECT_THROW(Parsed({"--decay-factor", "1.5"}), InputError);
  EXPECT_THROW(Parsed({"--decay-factor", "0"}), InputError);
}

TEST(OptimizerOptions, AGlobalBatchIsDividedEvenly) {
  OptimizerOptions o;
  o.batch = 3;
  EXPECT_EQ(batch_per_replica(o, {.data = 4}), 3);
  o.global_batch = 20;
  EXPECT_EQ(batch_per_replica(o, {.data = 4}), 5);
  EXPECT_THROW(batch_per_replica(o, {.data = 3, .space = 2}), InputError);
}

}  // namespace
}  // namespace keelson::app
