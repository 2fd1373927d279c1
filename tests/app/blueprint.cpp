#include "apps/common/blueprint.hpp"

#include <gtest/gtest.h>

#include "tests/support/data_files.hpp"

namespace keelson::app {
namespace {

using testing::message_of;

std::string refusal_of(const std::string& text) {
  return message_of<InputError>([&] { parse_blueprint(text, "b.toml"); });
}

TEST(Blueprint, SaysHowANetworkGrows) {
  const GrowthOptions o = parse_blueprint(R"(# a comment
method = "zero"
factor = 2
epochs = [4, 8]
layers = "all"
rate = "lemon"
probe = 16
events = 5
ms = 12.5
parameters = "3x"

[depth]
"*" = 2
"block1.conv" = [1, 4]

[widths]
"*" = ["0.25x", "1x"]
conv1 = 48
"block1.conv" = [8, "2.5x"]
)",
                                          "b.toml");
  EXPECT_EQ(o.method, WidenMethod::zero);
  EXPECT_EQ(o.factor, 2);
  EXPECT_EQ(o.epochs, (std::vector<std::int64_t>{4, 8}));
  EXPECT_FALSE(o.one_layer);
  EXPECT_EQ(o.rate, GrownRate::lemon);
  EXPECT_EQ(o.probe, 16);
  EXPECT_EQ(o.events, 5);
  EXPECT_EQ(o.milliseconds, 12.5);
  ASSERT_TRUE(o.parameters);
  EXPECT_EQ(o.parameters->times, 3);
  ASSERT_EQ(o.depth.size(), 2U);
  EXPECT_EQ(o.depth.at("*").least, 0);
  EXPECT_EQ(o.depth.at("*").most, 2);
  EXPECT_EQ(o.depth.at("block1.conv").least, 1);
  EXPECT_EQ(o.depth.at("block1.conv").most, 4);
  ASSERT_EQ(o.widths.size(), 3U);
  EXPECT_EQ(o.widths.at("*").least.times, 0.25);
  EXPECT_EQ(o.widths.at("*").most.times, 1);
  EXPECT_EQ(o.widths.at("conv1").least.times, 1);
  EXPECT_EQ(o.widths.at("conv1").most.units, 48);
  EXPECT_EQ(o.widths.at("block1.conv").least.units, 8);
  EXPECT_EQ(o.widths.at("block1.conv").most.times, 2.5);
}

TEST(Blueprint, HasDefaults) {
  const GrowthOptions o = parse_blueprint("[widths]\ndense1 = 9\n", "b.toml");
  EXPECT_EQ(o.method, WidenMethod::copy);
  EXPECT_EQ(o.factor, 1.5);
  EXPECT_EQ(o.patience, 3);
  EXPECT_TRUE(o.epochs.empty());
  EXPECT_TRUE(o.one_layer);
  EXPECT_EQ(o.rate, GrownRate::schedule);
  EXPECT_EQ(o.undo, 1);
  EXPECT_EQ(o.threshold, 1e-4);
  EXPECT_EQ(o.milliseconds, 0);
  EXPECT_EQ(o.events, 0);
  EXPECT_FALSE(o.parameters);
  const auto undo = [](const std::string& value) {
    return parse_blueprint("undo = " + value + "\nparameters = 2e6\n[depth]\na = 1\n", "b.toml");
  };
  EXPECT_EQ(undo("true").undo, 1);
  EXPECT_EQ(undo("false").undo, 0);
  EXPECT_EQ(undo("3").undo, 3);
  EXPECT_EQ(undo("3").parameters->units, 2000000);
}

TEST(Blueprint, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(refusal_of("[widths]\na = 0\n"), "'b.toml': a = 0: expected a whole number of 1 or more");
  EXPECT_EQ(refusal_of("[widths]\na = \"x\"\n"), "'b.toml': a = x: expected a number above 0");
  EXPECT_EQ(refusal_of("[widths]\na = [1, 2, 3]\n"),
            "'b.toml': a = 1, 2, 3: expected the most units, or [units at first, most units]");
  EXPECT_EQ(refusal_of("rate = \"fast\"\n"), "'b.toml': rate 'fast': expected schedule, lemon or net2net");
  EXPECT_EQ(refusal_of("layers = \"two\"\n"), "'b.toml': layers = two: expected \"one\" or \"all\"");
  EXPECT_EQ(refusal_of("[layers]\na = 3\n"), "'b.toml': unknown section [layers]; expected [widths] or [depth]");
  EXPECT_NE(refusal_of("factr = 3\n").find("unknown key 'factr'"), std::string::npos);
  EXPECT_NE(refusal_of("factor = 3\n").find("has no section [widths] or [depth]"), std::string::npos);
  EXPECT_NE(refusal_of("patience = 3\nepochs = [2]\n[widths]\na = 9\n").find("both patience and epochs"),
            std::string::npos);
  EXPECT_NE(refusal_of("undo = false\nepochs = [2]\n[widths]\na = 9\n").find("both undo and epochs"),
            std::string::npos);
  EXPECT_EQ(refusal_of("[depth]\na = -1\n"), "'b.toml': a = -1: expected a whole number of 0 or more");
  EXPECT_EQ(refusal_of("parameters = 2.5\n"),
            "'b.toml': parameters = 2.5: expected a whole number, or a multiple as \"3x\"");
  EXPECT_EQ(refusal_of("threshold = 1\n"), "'b.toml': threshold = 1: expected a number from 0, and below 1");
  EXPECT_EQ(refusal_of("ms = 0\n"), "'b.toml': ms = 0: expected a number above 0");
  EXPECT_EQ(refusal_of("widths = 3\n"),
            "'b.toml': widths = 3: expected a section with a value for each layer, e.g. \"*\" = 2");
  EXPECT_EQ(refusal_of("undo = 0\n"), "'b.toml': undo = 0: expected a whole number of 1 or more");
}

/// Entries that are not from a file, and the text that checkpoints have of them.
TEST(Blueprint, IsWrittenAsToml) {
  const std::vector<TomlEntry> entries{{"widths", "block1.conv", {"0.5x", "1x"}},
                                       {"", "epochs", {"1", "3"}},
                                       {"widths", "*", {"64"}},
                                       {"", "rate", {"lemon"}},
                                       {"depth", "a \"b\" \\", {"2"}}};
  const GrowthOptions o = blueprint_of(entries, "grow"), read = parse_blueprint(to_toml(entries), "b.toml");
  for (const GrowthOptions& which : {o, read}) {
    EXPECT_EQ(which.epochs, (std::vector<std::int64_t>{1, 3}));
    EXPECT_EQ(which.rate, GrownRate::lemon);
    ASSERT_EQ(which.widths.size(), 2U);
    EXPECT_EQ(which.widths.at("block1.conv").least.times, 0.5);
    EXPECT_EQ(which.widths.at("*").most.units, 64);
    EXPECT_EQ(which.depth.at("a \"b\" \\").most, 2);
  }
  EXPECT_EQ(message_of<InputError>([] { blueprint_of({{"", "rate", {"fast"}}}, "grow"); }),
            "grow: rate 'fast': expected schedule, lemon or net2net");
}

}  // namespace
}  // namespace keelson::app
