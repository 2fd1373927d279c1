#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/process_grid.hpp"
#include "engine/execute/executor.hpp"
#include "engine/layers/layers.hpp"
#include "engine/optim/adam.hpp"
#include "engine/optim/lamb.hpp"
#include "engine/optim/lars.hpp"
#include "engine/optim/muon.hpp"
#include "engine/optim/schedule_free.hpp"
#include "engine/optim/sgd.hpp"
#include "tests/mpi/world.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/environment_variable.hpp"

/// Shards of the optimizer: ExchangeOptions::shards.
namespace keelson::testing {
namespace {

using Values = std::vector<std::vector<float>>;

Graph conv_and_dense() {
  Graph g;
  const Var hidden = leaky_relu(conv(g.input("x", {3, 6, 6}), {.filters = 20}, "conv"), 0.1f);
  const Var wide = leaky_relu(dense(flatten(hidden), 33, "wide"), 0.1f);
  g.set_loss(mse(dense(wide, 4, "last"), g.input("y", {4})));
  return g;
}

struct OptimizerCase {
  std::string name;
  std::shared_ptr<Optimizer> optimizer;
  bool has_norms = true;
};

template <class O, class Set>
OptimizerCase optimizer_case(const std::string& name, bool has_norms, Set set) {
  auto o = std::make_shared<O>();
  set(*o);
  return {name, o, has_norms};
}

std::vector<OptimizerCase> sharded_optimizers() {
  return {optimizer_case<Sgd>("sgd", false, [](Sgd&) {}),
          optimizer_case<Sgd>("momentum", false, [](Sgd& o) { o.momentum = 0.9f, o.weight_decay = 1e-3f; }),
          optimizer_case<Sgd>("clip", true, [](Sgd& o) { o.momentum = 0.9f, o.clip_norm = 0.1f; }),
          optimizer_case<Sgd>("larc", true, [](Sgd& o) { o.momentum = 0.9f, o.larc.mode = ops::LarcMode::clip; }),
          optimizer_case<Adam>("adam", false, [](Adam&) {}),
          optimizer_case<AdamW>("adamw", true, [](AdamW& o) { o.weight_decay = 0.1f, o.clip_norm = 1; }),
          optimizer_case<Lars>("lars", true, [](Lars&) {}),
          optimizer_case<Lamb>("lamb", true, [](Lamb&) {})};
}

PlanOptions shard_options(const Optimizer& optimizer, const ProcessGrid* grid, OptimizerShards shards,
                          std::size_t bucket_bytes = 4096, std::int64_t micro_batches = 1) {
  PlanOptions options{
      .batch = 2 * micro_batches, .micro_batch_count = micro_batches, .optimizer = &optimizer, .grid = grid};
  options.exchange.bucket_bytes = bucket_bytes;
  options.exchange.shards = shards;
  return options;
}

void set_sines(Executor& executor, Context& c) {
  for (const char* name : {"x", "y"}) {
    const Tensor t = executor.input(name);
    std::vector<float> values(static_cast<std::size_t>(t.elements()));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = std::sin(static_cast<float>(i * 7 + static_cast<std::size_t>(world().rank()) * 1000));
    c.write_plain(t, values.data());
  }
}

void train_steps(Executor& executor, int steps, int first = 1) {
  ops::StepParams step;
  step.learning_rate = 0.05f;
  step.inverse_samples = 1.0f / static_cast<float>(2 * world().size());
  step.step = first;
  for (int i = 0; i < steps; ++i, ++step.step) {
    for (std::int64_t m = 0; m < executor.micro_batches(); ++m) {
      executor.forward(step, m);
      executor.backward();
    }
    executor.update();
  }
  executor.finish_exchange();
}

/// Parameters and moments after some steps, on rank 0; parameters alone on the others.
Values trained_in_shards(const Optimizer& optimizer, OptimizerShards shards, std::size_t bucket_bytes = 4096,
                         int space = 1, std::int64_t micro_batches = 1) {
  const auto group = world().split(0, world().rank());  // reads KEELSON_ALLREDUCE anew
  const ProcessGrid grid(*group, {.space = space});
  const Graph graph = conv_and_dense();
  Context& c = context(network_contexts().back());
  Parameters parameters(graph, c, 1);
  Executor executor(graph, parameters, shard_options(optimizer, &grid, shards, bucket_bytes, micro_batches));
  set_sines(executor, c);
  train_steps(executor, 4);
  Values all;
  for (const Parameter& p : parameters.all()) all.push_back(parameters.get(p));
  for (const Parameter& p : parameters.all())
    for (std::size_t m = 0; m < optimizer.state_names().size(); ++m)
      all.push_back(parameters.gather(p, static_cast<int>(m), &world()));
  return all;
}

void expect_near_values(const Values& a, const Values& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].size(), b[i].size()) << what << ", array " << i;
    float most = 0, difference = 0;
    for (std::size_t k = 0; k < a[i].size(); ++k) {
      most = std::max(most, std::abs(b[i][k]));
      difference = std::max(difference, std::abs(a[i][k] - b[i][k]));
    }
    EXPECT_LE(difference, 1e-5f * most) << what << ", array " << i;
  }
}

TEST(Shards, TrainAsWholeOptimizersDo) {
  KEELSON_NEED_RANKS(2);
  const EnvironmentVariable halving("KEELSON_ALLREDUCE", "halving");
  const bool same_order = (world().size() & (world().size() - 1)) == 0;
  for (const OptimizerCase& o : sharded_optimizers()) {
    const Values whole = trained_in_shards(*o.optimizer, OptimizerShards::none);
    for (const auto shards : {OptimizerShards::moments, OptimizerShards::gradients}) {
      const std::string what = fmt::format("{}, shards {}", o.name, static_cast<int>(shards));
      const Values parts = trained_in_shards(*o.optimizer, shards);
      if (same_order && !o.has_norms)
        EXPECT_EQ(parts, whole) << what;
      else
        expect_near_values(parts, whole, what);
    }
  }
}

/// The shards are those of all ranks, also where several share samples.
TEST(Shards, TrainReplicasOfSeveralRanks) {
  KEELSON_NEED_RANKS(2);
  if (world().size() % 2 != 0) GTEST_SKIP() << "an odd number of ranks";
  for (const OptimizerCase& o : sharded_optimizers()) {
    const Values whole = trained_in_shards(*o.optimizer, OptimizerShards::none, 4096, 2);
    for (const auto shards : {OptimizerShards::moments, OptimizerShards::gradients})
      expect_near_values(trained_in_shards(*o.optimizer, shards, 4096, 2), whole, o.name);
  }
}

TEST(Shards, OfMomentsAddUpMicroBatches) {
  KEELSON_NEED_RANKS(2);
  const EnvironmentVariable halving("KEELSON_ALLREDUCE", "halving");
  for (const OptimizerCase& o : sharded_optimizers())
    expect_near_values(trained_in_shards(*o.optimizer, OptimizerShards::moments, 4096, 1, 3),
                       trained_in_shards(*o.optimizer, OptimizerShards::none, 4096, 1, 3), o.name);
}

TEST(Shards, SizesOfBucketsDoNotShow) {
  KEELSON_NEED_RANKS(2);
  Sgd sgd;
  sgd.momentum = 0.9f;
  for (const auto shards : {OptimizerShards::moments, OptimizerShards::gradients}) {
    const Values want = trained_in_shards(sgd, shards, 1 << 20);
    for (const std::size_t bytes : {64, 8192})
      expect_near_values(trained_in_shards(sgd, shards, bytes), want, fmt::format("{}", bytes));
  }
}

TEST(Shards, RanksHaveTheSameParameters) {
  KEELSON_NEED_RANKS(2);
  for (const OptimizerCase& o : sharded_optimizers()) {
    auto all = trained_in_shards(*o.optimizer, OptimizerShards::gradients);
    all.resize(6);  // the parameters
    for (const auto& values : all) {
      auto of_rank0 = values;
      world().broadcast(of_rank0.data(), of_rank0.size() * sizeof(float), 0);
      EXPECT_EQ(values, of_rank0) << o.name;
    }
  }
}

/// Bytes of Plan::memory() by purpose.
std::size_t plan_bytes_of(const Plan& plan, const std::string& purpose) {
  for (const auto& [name, bytes] : plan.memory())
    if (name == purpose) return bytes;
  ADD_FAILURE() << purpose;
  return 0;
}

TEST(Shards, NeedTheMemoryOfTheFormula) {
  KEELSON_NEED_RANKS(2);
  const ProcessGrid grid(world());
  Graph graph;
  Var x = graph.input("x", {512});
  for (int i = 0; i < 6; ++i) x = dense(x, 512, fmt::format("dense{}", i));
  graph.set_loss(mse(x, graph.input("y", {512})));
  const double ranks = world().size();
  const Adam adam;
  constexpr std::size_t bucket = (1 << 20) + 2048;  // weights and bias of a layer
  std::size_t activations = 0;
  for (const auto shards : {OptimizerShards::none, OptimizerShards::moments, OptimizerShards::gradients}) {
    Parameters parameters(graph, context(network_contexts().back()), 1);
    const Plan plan(graph, parameters, shard_options(adam, &grid, shards, bucket));
    const double p = 4 * static_cast<double>(parameters.count()), k = 2;
    const double moments = shards == OptimizerShards::none ? k * p : k * p / ranks,
                 gradients = shards == OptimizerShards::gradients ? p / ranks : p;
    EXPECT_NEAR(static_cast<double>(plan_bytes_of(plan, "parameters")), p, 0.05 * p);
    EXPECT_NEAR(static_cast<double>(plan_bytes_of(plan, "gradients")), gradients, 0.05 * gradients);
    double all = static_cast<double>(plan_bytes_of(plan, "optimizer state"));  // of this rank
    world().allreduce(&all, 1, Reduction::sum);
    EXPECT_NEAR(all / ranks, moments, 0.05 * moments);
    if (shards == OptimizerShards::none) activations = plan.arena_bytes();
    if (shards != OptimizerShards::gradients) continue;
    EXPECT_LE(static_cast<double>(plan.arena_bytes()), static_cast<double>(activations) + 2 * 1.05 * bucket);
  }
}

TEST(Shards, MomentsGoToOtherPlansAndBack) {
  KEELSON_NEED_RANKS(2);
  const ProcessGrid grid(world());
  const Graph graph = conv_and_dense();
  Context& c = context(network_contexts().back());
  Sgd sgd;
  sgd.momentum = 0.9f;
  const EnvironmentVariable halving("KEELSON_ALLREDUCE", "halving");
  const auto run = [&](std::vector<OptimizerShards> turns) {
    Parameters parameters(graph, c, 1);
    int step = 1;
    for (const auto shards : turns) {
      Executor executor(graph, parameters, shard_options(sgd, &grid, shards));
      set_sines(executor, c);
      train_steps(executor, 2, step);
      step += 2;
      parameters.gather_shards(world());
    }
    Values all;
    for (const Parameter& p : parameters.all()) all.push_back(parameters.get(p)), all.push_back(parameters.get(p, 0));
    return all;
  };
  using enum OptimizerShards;
  expect_near_values(run({none, moments, none, gradients, none}), run({none, none, none, none, none}), "turns");
}

/// Another executor on the same parameters, of evaluation for example, follows when these move into one block.
TEST(Shards, OtherExecutorsFollowTheParameters) {
  KEELSON_NEED_RANKS(2);
  const ProcessGrid grid(world());
  const Graph graph = conv_and_dense();
  Context& c = context(network_contexts().back());
  const Sgd sgd;
  Parameters parameters(graph, c, 1);
  Executor inference(graph, parameters, {.batch = 2, .training = false});
  set_sines(inference, c);
  ops::StepParams step;
  step.inverse_samples = 0.5f;
  const auto loss = [&] {
    inference.forward(step);
    return inference.loss();
  };
  const double before = loss();
  {
    Executor executor(graph, parameters, shard_options(sgd, &grid, OptimizerShards::moments));
    EXPECT_EQ(loss(), before);
    set_sines(executor, c);
    train_steps(executor, 3);
    EXPECT_NE(loss(), before);
  }
  const double after = loss();
  Parameters copy(graph, c, 2);
  Executor other(graph, copy, {.batch = 2, .training = false});
  for (Parameter& p : copy.all()) copy.set(p, parameters.get(parameters.at(p.name)));
  set_sines(other, c);
  other.forward(step);
  EXPECT_EQ(after, other.loss());
}

/// Of two ranks one has the weights, which have norms, and the other has the bias, which has none.
TEST(Shards, RanksWithoutNormsTakePartInTheirSum) {
  KEELSON_NEED_RANKS(2);
  Graph graph;
  graph.set_loss(mse(dense(graph.input("x", {1}), 64, "only"), graph.input("y", {64})));
  const ProcessGrid grid(world());
  Context& c = context(network_contexts().back());
  const Lars lars;
  Values results;
  for (const auto shards : {OptimizerShards::none, OptimizerShards::gradients}) {
    Parameters parameters(graph, c, 1);
    Executor executor(graph, parameters, shard_options(lars, &grid, shards));
    set_sines(executor, c);
    train_steps(executor, 3);
    results.push_back(parameters.get(parameters.at("only/weights")));
  }
  expect_near_values({results[0]}, {results[1]}, "lars");
}

TEST(Shards, RefuseWhatTheyCannotDo) {
  KEELSON_NEED_RANKS(2);
  const ProcessGrid grid(world());
  const Graph graph = conv_and_dense();
  Parameters parameters(graph, context(network_contexts().back()), 1);
  Sgd sgd;
  const auto refused = [&](auto change, OptimizerShards shards, const char* says) {
    PlanOptions options = shard_options(sgd, &grid, shards);
    change(options);
    try {
      const Plan plan(graph, parameters, options);
      ADD_FAILURE() << says;
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
    }
  };
  using enum OptimizerShards;
  refused([](PlanOptions& o) { o.exchange.wire = Wire::bf16; }, moments, "--wire");
  refused([](PlanOptions& o) { o.lag = true; }, moments, "--sync lag");
  const AdamWScheduleFree schedule_free;
  refused([&](PlanOptions& o) { o.optimizer = &schedule_free; }, moments, "another optimizer, e.g. adamw");
  if ((world().size() & (world().size() - 1)) != 0) return;  // no reproducible sums
  refused([](PlanOptions& o) { o.exchange.reproducible = true; }, gradients, "--shard-optimizer moments");
  const Muon muon;
  refused([&](PlanOptions& o) { o.optimizer = &muon; }, moments, "leave --shard-optimizer out");
  sgd.clip_norm = 1;
  refused([](PlanOptions& o) { o.exchange.reproducible = true; }, moments, "global norm");
}

}  // namespace
}  // namespace keelson::testing
