#include <gtest/gtest.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>

#include "apps/climate/subcommands.hpp"
#include "apps/common/subcommand.hpp"
#include "apps/cosmoflow/subcommands.hpp"
#include "apps/lm/subcommands.hpp"

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
