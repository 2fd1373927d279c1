#include <gtest/gtest.h>

#include "engine/layers/layers.hpp"
#include "engine/optim/adam.hpp"
#include "engine/plan/plan.hpp"
#include "tests/support/contexts.hpp"

/// Plans of one rank along the axis channel, made without the others.
namespace keelson::testing {
namespace {

std::size_t bytes_for(const Plan& plan, const std::string& purpose) {
  for (const auto& [name, bytes] : plan.memory())
    if (name == purpose) return bytes;
  ADD_FAILURE() << purpose;
  return 0;
}

/// Weights and moments of 512 x 512 are cut, the head of 3 x 512 is not.
TEST(PlansOfChannelParts, HaveAPartOfTheParameters) {
  Graph g;
  Var x = g.input("x", {512});
  for (int i = 0; i < 3; ++i) x = relu(dense(x, 512, fmt::format("dense{}", i)));
  mse(dense(x, 3, "head"), g.input("y", {3}));
  const Adam adam;
  constexpr std::size_t cut = 3 * (512 * 512 + 512) * sizeof(float), whole = (3 * 512 + 3) * sizeof(float);
  for (const int channel : {2, 4})
    for (int rank = 0; rank < channel; ++rank) {
      const ProcessGrid grid({.data = 1, .channel = channel}, rank);
      Parameters parameters(g, context(network_contexts().back()), 1);
      const Plan plan(g, parameters, {.batch = 2, .optimizer = &adam, .grid = &grid});
      const std::size_t held = cut / static_cast<std::size_t>(channel) + whole;
      EXPECT_EQ(bytes_for(plan, "parameters"), held) << channel << " " << rank;
      EXPECT_EQ(bytes_for(plan, "optimizer state"), 2 * held) << channel << " " << rank;
      EXPECT_EQ(parameters.at("dense1/weights").value.shape(), (Shape{512 / channel, 512}));
      EXPECT_EQ(parameters.at("head/weights").value.shape(), (Shape{3, 512}));
    }
}

}  // namespace
}  // namespace keelson::testing
