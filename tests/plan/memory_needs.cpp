#include "engine/plan/memory_needs.hpp"

#include <gtest/gtest.h>

#include "backends/registry.hpp"
#include "engine/execute/executor.hpp"
#include "engine/layers/layers.hpp"
#include "engine/optim/sgd.hpp"
#include "tests/support/contexts.hpp"

namespace keelson::testing {
namespace {

Graph network() {
  Graph g;
  const Var x = g.input("x", {4, 32, 32}), y = g.input("y", {3});
  mse(dense(flatten(max_pool(relu(conv(x, {.filters = 32}, "conv1")), 4)), 3, "out"), y);
  return g;
}

void try_plan(Context& context, const Graph& graph, PlanOptions options) {
  Parameters parameters(graph, context, 1);
  const Executor executor(graph, parameters, options);
}

/// The batch that the message names fits. (So may a larger one, since large plans share more of their memory.)
TEST(MemoryNeeds, NamesABatchThatFits) {
  context("kokkos");  // skips where there is no device
  const auto context = backends::make_context();
  const Graph g = network();
  Sgd optimizer;
  optimizer.momentum = 0.9f;
  PlanOptions options{.batch = 64, .optimizer = &optimizer};
  context->device().limit_memory(std::size_t{4} << 20);
  EXPECT_THROW(try_plan(*context, g, options), OutOfMemory);
  EXPECT_EQ(context->device().memory().used, 0u);
  const auto text = describe_memory_needs(g, *context, options);
  for (const auto* part : {"a batch of 64 needs", "activations", "optimizer state", "4.0 MiB are available", " fits"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  const auto at = text.rfind("a batch of ");
  options.batch = std::stoll(text.substr(at + 11));
  EXPECT_GT(options.batch, 1);
  EXPECT_LT(options.batch, 64);
  EXPECT_NO_THROW(try_plan(*context, g, options)) << text;
}

TEST(MemoryNeeds, SaysSoWhereNoBatchFits) {
  context("kokkos");
  const auto context = backends::make_context();
  context->device().limit_memory(std::size_t{100} << 10);  // room for the parameters
  const auto text = describe_memory_needs(network(), *context, {.batch = 8});
  EXPECT_NE(text.find("; not even a batch of 1 fits"), std::string::npos) << text;
}

TEST(MemoryNeeds, SaysSoWhereNothingFits) {
  context("kokkos");
  const auto context = backends::make_context();
  context->device().limit_memory(1000);
  const auto text = describe_memory_needs(network(), *context, {.batch = 8});
  EXPECT_NE(text.find("not even a batch of 2 fits"), std::string::npos) << text;
}

}  // namespace
}  // namespace keelson::testing
