#include <gtest/gtest.h>

#include "engine/layers/layers.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/networks.hpp"

namespace keelson::testing {
namespace {

class RecurrentLayers : public ::testing::TestWithParam<std::string> {};

/// Outputs of two calls with the same input, one after the other.
std::vector<std::vector<float>> two_calls(Context& context, bool gru_cells, bool carries, bool last) {
  Graph g;
  Var x = flatten(g.input("x", {4, 3}), ElementOrder::logical, 3);
  const RecurrentOptions options{.hidden = 5, .layers = 2, .carries_state = carries};
  x = gru_cells ? gru(x, options, "cells") : lstm(x, options, "cells");
  g.set_output("y", last ? last_step(x) : x);
  Parameters parameters(g, context, 1);
  Executor executor(g, parameters, {.batch = 2, .training = false});
  set_input(context, executor, "x", oracle::random_uniform({2, 4, 3}, "x"));
  std::vector<std::vector<float>> outputs;
  for (int call = 0; call < 2; ++call) {
    executor.forward({});
    const Tensor y = executor.output("y");
    context.read_plain(y, outputs.emplace_back(static_cast<std::size_t>(y.elements())).data());
    executor.carry_states();
  }
  return outputs;
}

/// Without a state, each sample begins with zeros, as the first one of a layer with a state does.
TEST_P(RecurrentLayers, BeginWithZeros) {
  for (const bool cells : {false, true}) {
    const auto alone = two_calls(context(GetParam()), cells, false, false),
               carried = two_calls(context(GetParam()), cells, true, false),
               last = two_calls(context(GetParam()), cells, false, true);
    EXPECT_EQ(alone[0], alone[1]);
    EXPECT_EQ(alone[0], carried[0]);
    EXPECT_NE(carried[0], carried[1]);
    ASSERT_EQ(last[0].size(), 2u * 5);
    for (std::size_t sample = 0; sample < 2; ++sample)
      for (std::size_t unit = 0; unit < 5; ++unit)
        EXPECT_EQ(last[0][sample * 5 + unit], alone[0][(sample * 4 + 3) * 5 + unit]);
  }
}

TEST_P(RecurrentLayers, LastStepIsOfRows) {
  Graph g;
  EXPECT_THROW(last_step(g.input("x", {4, 3, 2})), InputError);
}

INSTANTIATE_TEST_SUITE_P(Contexts, RecurrentLayers, ::testing::ValuesIn(network_contexts()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace keelson::testing
