#include "apps/lm/run_options.hpp"

#include <gtest/gtest.h>

#include "apps/common/subcommand.hpp"
#include "engine/train/checkpoint/run_state.hpp"

#include "engine/base/error.hpp"

namespace keelson::lm {
namespace {

/// The options of a subcommand with these arguments and, where they leave something open, this recipe.
RunOptions parsed(const std::vector<std::string>& arguments, const std::string& fill_with = "") {
  app::Subcommand subcommand;
  RunOptions o;
  declare(o, subcommand);
  subcommand.parse(arguments);
  if (!fill_with.empty()) subcommand.fill(app::find_recipe(recipes(), fill_with), fill_with);
  return o;
}

TEST(LmRunOptions, EveryRecipeIsAccepted) {
  for (const auto& [name, recipe] : recipes()) {
    const auto o = parsed({}, name);
    EXPECT_NO_THROW(check(o)) << name;
    EXPECT_EQ(o.schedule, "decay") << name;
    EXPECT_EQ(o.lr, 1) << name;
  }
  EXPECT_EQ(recipes().size(), 1 + nets::lstm_lm_configurations().size());
  EXPECT_THROW(app::find_recipe(recipes(), "tiny"), InputError);
}

TEST(LmRunOptions, PublishedRecipesMakeThePublishedNetworks) {
  for (const auto& c : nets::lstm_lm_configurations()) {
    const auto o = parsed({}, c.name);
    EXPECT_EQ(nets::lstm_lm(net_options(o, o.vocab_size)).parameter_count(), nets::lstm_lm(c.net).parameter_count());
    EXPECT_FLOAT_EQ(o.dropout, c.net.dropout);
    EXPECT_FLOAT_EQ(o.init, c.net.init);
    EXPECT_NEAR(o.decay_factor, c.decay, 1e-12) << c.name;
    EXPECT_EQ(o.global_batch, c.batch);
  }
}

TEST(LmRunOptions, GivenOnesWinOverARecipe) {
  const auto o = parsed({"--batch", "7", "--dropout", "0.25"}, "medium");
  EXPECT_EQ(o.batch, 7);
  EXPECT_EQ(o.global_batch, 0);  // --batch replaces it
  EXPECT_EQ(o.dropout, 0.25f);
  EXPECT_EQ(o.hidden, 650);
}

TEST(LmRunOptions, ComeBackFromACheckpoint) {
  RunState state;
  app::Subcommand subcommand;
  RunOptions o;
  declare(o, subcommand);
  subcommand.parse({"--cell", "gru", "--tied", "--hidden", "24", "--layers", "3", "--unroll", "11", "--dropout",
                    "0.125", "--init", "0.0123456", "--train", "a b,c", "--validation", "d", "--vocab-size", "99"});
  state.config = subcommand.values();
  const auto back = app::stored_options<RunOptions>(state.config);
  EXPECT_EQ(network_name(back), "lm-gru");
  EXPECT_TRUE(back.tied);
  EXPECT_EQ(back.hidden, 24);
  EXPECT_EQ(back.layers, 3);
  EXPECT_EQ(back.unroll, 11);
  EXPECT_EQ(back.dropout, 0.125f);
  EXPECT_EQ(back.init, 0.0123456f);
  EXPECT_EQ(back.text.train, (std::vector<std::string>{"a b", "c"}));
  EXPECT_EQ(back.text.validation, std::vector<std::string>{"d"});
  EXPECT_EQ(back.vocab_size, 99);
}

TEST(LmRunOptions, TiedWeightsNeedOneSize) {
  EXPECT_NO_THROW(check(parsed({"--tied"})));
  EXPECT_NO_THROW(check(parsed({"--tied", "--embedding", "200"})));
  EXPECT_THROW(check(parsed({"--tied", "--embedding", "100"})), InputError);
}

}  // namespace
}  // namespace keelson::lm
