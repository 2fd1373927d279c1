#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/base/process_grid.hpp"
#include "engine/execute/executor.hpp"
#include "engine/layers/layers.hpp"
#include "engine/optim/sgd.hpp"
#include "tests/mpi/world.hpp"
#include "tests/support/contexts.hpp"

namespace keelson::testing {
namespace {

Graph two_layers() {
  Graph g;
  const Var hidden = dense(g.input("x", {32}), 32, "first");
  g.set_loss(mse(dense(hidden, 4, "second"), g.input("y", {4})));
  return g;
}

/// Waits and updates of a plan, in their order.
std::vector<std::string> waits_and_updates(const Graph& graph, const Sgd& sgd, std::size_t bucket_bytes) {
  const ProcessGrid grid(world());
  Parameters parameters(graph, context(network_contexts().back()), 1);
  PlanOptions options{.batch = 2, .optimizer = &sgd, .grid = &grid};
  options.exchange.bucket_bytes = bucket_bytes;
  const Plan plan(graph, parameters, options);
  std::vector<std::string> calls;
  for (const auto& row : plan.rows())
    if (row.node.starts_with("bucket") && row.op.starts_with("wait"))
      calls.push_back("wait " + row.node);
    else if (row.phase == "update")
      calls.push_back(row.op + " " + row.node);
  return calls;
}

TEST(ExchangeOrder, UpdatesBeginWhenTheirBucketIsThere) {
  KEELSON_NEED_RANKS(2);
  const auto calls = waits_and_updates(two_layers(), Sgd(), 2048);
  std::vector<std::string> without_names;
  for (const auto& c : calls) without_names.push_back(c.substr(0, c.find(' ')));
  // The second layer's 512 and 16 bytes share a bucket with the first layer's 4096 or 128, whichever backward makes
  // first; what is left is a bucket of its own.
  const std::vector<std::string> want{"wait", "update", "update", "update", "wait", "update"};
  EXPECT_EQ(without_names, want);
}

TEST(ExchangeOrder, RanksWithOtherPlansAreRefusedWhereTheyTrain) {
  KEELSON_NEED_RANKS(2);
  const ProcessGrid grid(world());
  const int last = world().size() - 1;
  const Graph graph = two_layers();
  // The batch stands for all that may differ: gradients have the same sizes, and could be added up.
  const PlanOptions options{.batch = world().rank() == last ? 3 : 2, .grid = &grid};
  Parameters parameters(graph, context(network_contexts().back()), 1);
  try {
    const Plan plan(graph, parameters, options);
    ADD_FAILURE() << "the ranks' plans differ";
  } catch (const InputError& e) {
    const std::string message = e.what();
    EXPECT_NE(message.find(fmt::format("different plans: rank {} (", last)), std::string::npos) << message;
    EXPECT_NE(message.find("shapes of inputs"), std::string::npos) << message;
  }
  // Plans without training sum nothing over ranks.
  PlanOptions inference = options;
  inference.training = false;
  Parameters others(graph, context(network_contexts().back()), 1);
  EXPECT_NO_THROW(Plan(graph, others, inference));
}

TEST(ExchangeOrder, TheNormOfAllGradientsNeedsAllBuckets) {
  KEELSON_NEED_RANKS(2);
  Sgd sgd;
  sgd.clip_norm = 1;
  const auto calls = waits_and_updates(two_layers(), sgd, 2048);
  ASSERT_GT(calls.size(), 3U);
  EXPECT_TRUE(calls[0].starts_with("wait"));
  EXPECT_TRUE(calls[1].starts_with("wait"));
  EXPECT_FALSE(calls[2].starts_with("wait"));
}

/// The same parameters with small buckets, of which some are still under way while others are updated.
TEST(ExchangeOrder, SizesOfBucketsDoNotShow) {
  const ProcessGrid grid(world());
  const Graph graph = two_layers();
  const Sgd sgd;
  std::vector<std::vector<float>> trained;
  for (const std::size_t bytes : {64, 2048, 1 << 20}) {
    Context& c = context(network_contexts().back());
    Parameters parameters(graph, c, 1);
    PlanOptions options{.batch = 2, .optimizer = &sgd, .grid = &grid};
    options.exchange.bucket_bytes = bytes;
    Executor executor(graph, parameters, options);
    for (const char* name : {"x", "y"}) {
      const Tensor t = executor.input(name);
      std::vector<float> values(static_cast<std::size_t>(t.elements()));
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = 0.25f * static_cast<float>((i + static_cast<std::size_t>(world().rank())) % 5);
      c.write_plain(t, values.data());
    }
    ops::StepParams step;
    step.learning_rate = 0.125f;
    step.inverse_samples = 1.0f / static_cast<float>(2 * world().size());
    for (int i = 0; i < 3; ++i, ++step.step) {
      executor.forward(step);
      executor.backward();
      executor.update();
    }
    trained.push_back(parameters.get(parameters.at("first/weights")));
  }
  EXPECT_EQ(trained[0], trained[2]);
  EXPECT_EQ(trained[1], trained[2]);
}

}  // namespace
}  // namespace keelson::testing
