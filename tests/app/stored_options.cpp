#include <gtest/gtest.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>

#include "apps/climate/subcommands.hpp"
#include "apps/common/optimizer_options.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/cosmoflow/subcommands.hpp"
#include "apps/lm/subcommands.hpp"
#include "engine/base/error.hpp"

namespace keelson::app {
namespace {

const std::map<std::string, std::function<void(CommandLine&)>>& trainers() {
  static const std::map<std::string, std::function<void(CommandLine&)>> all{
      {"climate", climate::define_train}, {"cosmoflow", cosmoflow::define_train}, {"lm", lm::define_train}};
  return all;
}

/// `visit` gets the options of `train` of each program.
void each_train(const std::vector<std::string>& arguments, const std::function<void(const Subcommand&)>& visit) {
  for (const auto& [name, define] : trainers()) {
    SCOPED_TRACE(name);
    CommandLine line({"keelson-" + name, ""});
    define(line);
    std::vector<std::string> all{"train"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    visit(*line.parse(all).options);
  }
}

/// A new option fails here until it says .stored() or .not_stored(): an option that changes the bits of a run and is
/// not in checkpoints is dropped by --resume without a word.
TEST(StoredOptions, EachOptionOfTrainingSaysWhetherItIsStored) {
  each_train({}, [](const Subcommand& v) { EXPECT_EQ(fmt::format("{}", fmt::join(v.undecided(), ", ")), ""); });
}

TEST(StoredOptions, WhatChangesBitsIsStored) {
  each_train({"--wire", "bf16", "--exact-conv", "--bucket-mb", "2"}, [](const Subcommand& v) {
    auto found = v.values();
    for (const char* name : {"device", "checkpoint-every", "checkpoint-steps", "reproducible", "precision", "sync"})
      EXPECT_TRUE(found.contains(name)) << name;
    EXPECT_EQ(found["wire"], "bf16");
    EXPECT_EQ(found["exact-conv"], "true");
    EXPECT_EQ(found["bucket-mb"], "2");
    for (const char* name : {"out", "max-steps", "keep", "trace", "loader-threads"})
      EXPECT_FALSE(found.contains(name)) << name;
  });
}

TEST(StoredOptions, TheOptionsOfAMemberCountAsGiven) {
  Subcommand v;
  OptimizerOptions o;
  declare(o, v);
  v.parse({"--lr", "0.5"});
  const OptimizerOptions given = o;
  const Config recipe{{"lr", "1"}, {"schedule", "steps"}, {"decay", "3:0.5"}, {"momentum", "0.5"}};
  v.override_with({{"lr", "0.25"}, {"schedule", "constant"}}, "designs.json: entry 0");
  EXPECT_TRUE(v.given("schedule"));
  v.fill(recipe, "recipe");
  EXPECT_EQ(o.lr, 0.25);
  EXPECT_EQ(o.schedule, "constant");
  EXPECT_EQ(o.decay, "") << "the schedule that is given replaces the recipe's";
  EXPECT_EQ(o.momentum, 0.5f);
  o = given;
  v.override_with({}, "");
  EXPECT_FALSE(v.given("schedule"));
  v.fill(recipe, "recipe");
  EXPECT_EQ(o.lr, 0.5);
  EXPECT_EQ(o.decay, "3:0.5");
  try {
    v.override_with({{"batch", "0"}}, "designs.json: entry 1");
    ADD_FAILURE() << "a batch of 0 was accepted";
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()),
              "designs.json: entry 1: --batch: found '0', expected a whole number of at least 1");
  }
}

TEST(StoredOptions, MembersMayNotDifferInWhatTheySee) {
  each_train({}, [](const Subcommand& v) {
    const auto names = v.member_options();
    const auto has = [&](const char* name) { return std::ranges::find(names, name) != names.end(); };
    for (const char* name : {"lr", "optimizer", "batch", "bag", "dropout"}) EXPECT_TRUE(has(name)) << name;
    for (const char* name : {"seed", "train", "validation", "channels", "vocab-size", "uncertainty", "metric", "out"})
      EXPECT_FALSE(has(name)) << name;
  });
}

TEST(StoredOptions, ChangesAreNamed) {
  each_train({"--wire", "bf16", "--lr", "0.5", "--seed", "7", "--train", "a", "--keep", "3"}, [](const Subcommand& v) {
    const Config before{{"wire", "fp32"}, {"lr", "0.1"}, {"seed", "7"}, {"train", "/b/a"}, {"epochs", "9"}};
    auto changes = v.changes(before);
    std::sort(changes.begin(), changes.end());
    EXPECT_EQ(changes, (std::vector<std::string>{"--lr 0.5 (was 0.1)", "--wire bf16 (was fp32)"}));
  });
}

}  // namespace
}  // namespace keelson::app
