#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/execute/executor.hpp"
#include "engine/layers/layers.hpp"
#include "engine/optim/adam.hpp"
#include "engine/optim/lamb.hpp"
#include "engine/optim/lars.hpp"
#include "engine/optim/muon.hpp"
#include "engine/optim/sgd.hpp"
#include "nets/registry.hpp"
#include "tests/mpi/space_steps.hpp"
#include "tests/mpi/world.hpp"
#include "tests/support/contexts.hpp"

/// Parts of layers' channels on the ranks along the axis channel: they compute what one rank does with whole layers.
namespace keelson::testing {
namespace {

using ChannelAxis = ProcessGrid::Axis;

struct ChannelCase {
  std::string name;
  std::function<Var(Var)> layers;  ///< from the input to the prediction
  Shape sample;
};

Var conv_block(Var x, std::int64_t filters, const std::string& name) {
  return max_pool(leaky_relu(conv(x, {.filters = filters}, name), 0.1f), 2);
}

std::vector<ChannelCase> channel_cases() {
  return {
      {"dense layers", [](Var x) { return dense(relu(dense(tanh(dense(x, 11, "d1")), 13, "d2")), 3, "head"); }, {7}},
      {"blocks",
       [](Var x) {
         const Var pooled = conv_block(conv_block(x, 9, "c1"), 10, "c2");
         return dense(leaky_relu(dense(flatten(pooled, ElementOrder::channels_last), 8, "d1"), 0.1f), 3, "head");
       },
       {2, 8, 8, 8}},
      {"batch normalization and dropout",
       [](Var x) {
         x = relu(batch_norm(conv(x, {.filters = 9, .bias = false}, "c1"), {}, "bn1"));
         x = conv(x, {.filters = 9, .groups = 9}, "depthwise");
         x = batch_norm(conv(dropout(x, 0.3f, "drop1"), {.filters = 8, .bias = false}, "c2"), {}, "bn2");
         return dense(dropout(flatten(x), 0.2f, "drop2"), 9, "head");
       },
       {2, 6, 6}},
      {"several readers",
       [](Var x) {
         const Var a = relu(conv(x, {.filters = 8}, "c1"));
         const Var b = conv(a, {.filters = 8, .size = 5, .bias = false}, "c2"),
                   c = average_pool(a, {.size = 3, .stride = 1, .padding = 1});
         const Var d = batch_norm(concat({add({a, b}), c, x}), {}, "bn");
         return dense(flatten(global_average_pool(conv(d, {.filters = 10}, "c3"))), 3, "head");
       },
       {2, 7, 7}},
  };
}

Graph network_of(const ChannelCase& c) {
  Graph g;
  const Var prediction = c.layers(g.input("x", c.sample));
  g.set_output("prediction", prediction);
  mse(prediction, g.input("y", {prediction.shape().shape[1]}));
  return g;
}

/// Words in, the numbers of words out: parts of the embedding's features, and of the classes.
Graph network_of_words() {
  Graph g;
  const Var rows = embedding(g.input("x", {3}, DType::s32), {.entries = 23, .features = 9}, "embedding");
  const Var logits = dense(tanh(dense(dropout(rows, 0.2f, "drop"), 10, "d1")), 23, "output");
  g.set_output("prediction", logits);
  loss(logits, g.input("y", {3}, DType::s32), {.kind = ops::LossKind::cross_entropy, .sum_rows = true});
  return g;
}

/// Of whole arrays.
struct ChannelSteps : LossesAndGradients {
  std::vector<std::vector<float>> predictions, parameters;
};

/// `samples` of the `batch` samples of each replica count. On other ranks than 0 the values and moments of parameters
/// in parts are empty.
ChannelSteps channel_steps(const Graph& g, Communicator& ranks, int channel, const Optimizer& optimizer,
                           std::int64_t batch, int steps, std::int64_t samples = -1,
                           Precision precision = Precision::fp32) {
  const ProcessGrid grid(ranks, {.channel = channel});
  Context& c = context(network_contexts().back());
  Parameters parameters(g, c, 1);
  PlanOptions options{.batch = batch, .precision = precision, .optimizer = &optimizer, .grid = &grid};
  options.exchange.bucket_bytes = 1000;
  Executor executor(g, parameters, options);
  ChannelSteps result;
  const std::int64_t first = grid.coordinate(ChannelAxis::data) * batch,
                     all = samples < 0 ? batch * grid.extent(ChannelAxis::data) : samples;
  std::vector<float> weights(static_cast<std::size_t>(batch));
  for (std::int64_t n = 0; n < batch; ++n) weights[static_cast<std::size_t>(n)] = first + n < all ? 1.0f : 0.0f;
  c.write_plain(executor.input("weight"), weights.data());
  for (int s = 0; s < steps; ++s) {
    for (const Graph::Node& n : g.nodes()) {
      if (!n.srcs.empty()) continue;
      const Tensor t = executor.input(n.name);
      std::vector<float> values(static_cast<std::size_t>(t.elements()));
      const std::int64_t elements = t.elements() / batch;
      if (t.dtype() == DType::s32) {
        std::vector<std::int32_t> numbers(values.size());
        for (std::int64_t i = 0; i < t.elements(); ++i)
          numbers[static_cast<std::size_t>(i)] = static_cast<std::int32_t>((7 * (first * elements + i) + 5 * s) % 23);
        c.device().copy_from_host(t.raw(), numbers.data(), t.bytes());
        continue;
      }
      for (std::int64_t i = 0; i < t.elements(); ++i)
        values[static_cast<std::size_t>(i)] = element(first * elements + i, s);
      c.write_plain(t, values.data());
    }
    executor.forward({.seed = 3,
                      .step = static_cast<std::uint64_t>(s),
                      .sample_offset = first,
                      .inverse_samples = 1.0f / static_cast<float>(all),
                      .learning_rate = 0.05f});
    const Tensor out = executor.output("prediction");
    auto& prediction = result.predictions.emplace_back(static_cast<std::size_t>(out.elements()));
    c.read_plain(out, prediction.data());
    complete_step(executor, g, parameters, ranks, result);
  }
  executor.finish_exchange();
  for (const Parameter& p : parameters.all())
    for (int which = -1; which < static_cast<int>(p.moments.size()); ++which)
      result.parameters.push_back(p.part || ranks.rank() == 0 ? parameters.gather(p, which, &ranks)
                                                              : parameters.get(p, which));
  for (const Parameter& p : parameters.all()) {  // replicated ones have the same bits on all ranks
    if (p.part) continue;
    const auto mine = parameters.get(p);
    auto first_ones = mine;
    ranks.broadcast(first_ones.data(), first_ones.size() * sizeof(float), 0);
    EXPECT_EQ(mine, first_ones) << p.name;
  }
  return result;
}

float largest_of(const std::vector<float>& values) {
  float most = 0;
  for (const float v : values) most = std::max(most, std::abs(v));
  return most;
}

void expect_alike(const std::vector<std::vector<float>>& found, const std::vector<std::vector<float>>& wanted,
                  float tolerance, const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].empty()) continue;  // the whole is on rank 0
    ASSERT_EQ(found[i].size(), wanted[i].size()) << what << ", array " << i;
    float difference = 0;
    for (std::size_t k = 0; k < found[i].size(); ++k)
      difference = std::max(difference, std::abs(found[i][k] - wanted[i][k]));
    EXPECT_LE(difference, tolerance * std::max(largest_of(wanted[i]), 1e-3f)) << what << ", array " << i;
  }
}

void expect_alike(const ChannelSteps& found, const ChannelSteps& wanted, const std::string& what) {
  ASSERT_EQ(found.losses.size(), wanted.losses.size());
  for (std::size_t s = 0; s < wanted.losses.size(); ++s)
    EXPECT_NEAR(found.losses[s], wanted.losses[s], 1e-5 * std::abs(wanted.losses[s])) << what << ", step " << s;
  expect_alike(found.gradients, wanted.gradients, 1e-4f, what + ", gradients");
  expect_alike(found.parameters, wanted.parameters, 1e-4f, what + ", parameters");
}

/// Numbers of ranks along channel that fit the world.
std::vector<int> channel_extents() {
  std::vector<int> all;
  for (const int n : {2, 4})
    if (n <= world().size()) all.push_back(n);
  return all;
}

Sgd momentum_sgd() {
  Sgd o;
  o.momentum = 0.9f;
  return o;
}

TEST(ChannelParts, TrainAsOneRankDoes) {
  KEELSON_NEED_RANKS(2);
  const auto alone = world().split(world().rank(), 0);
  const Sgd sgd = momentum_sgd();
  for (const ChannelCase& c : channel_cases()) {
    const Graph g = network_of(c);
    for (const int channel : channel_extents())
      for (const std::int64_t batch : {1, 3}) {
        const std::int64_t replicas = world().size() / channel;
        if (batch * replicas == 1 && c.name.starts_with("several")) continue;  // one value for each channel
        const auto what = fmt::format("{}, channel {}, batch {}", c.name, channel, batch);
        const auto whole = channel_steps(g, *alone, 1, sgd, batch * replicas, 4);
        const auto parts = channel_steps(g, world(), channel, sgd, batch, 4);
        expect_alike(parts, whole, what);
        if (replicas == 1) expect_alike(parts.predictions, whole.predictions, 1e-4f, what + ", predictions");
      }
  }
}

/// The last replica, or the last sample, has no weight.
TEST(ChannelParts, TrainShortSteps) {
  KEELSON_NEED_RANKS(2);
  const auto alone = world().split(world().rank(), 0);
  const Sgd sgd = momentum_sgd();
  for (const ChannelCase& c : channel_cases())
    for (const int channel : channel_extents()) {
      const Graph g = network_of(c);
      const std::int64_t all = 2 * (world().size() / channel);
      expect_alike(channel_steps(g, world(), channel, sgd, 2, 2, all - 1),
                   channel_steps(g, *alone, 1, sgd, all, 2, all - 1), fmt::format("{}, channel {}", c.name, channel));
    }
}

template <class O, class Set>
std::pair<std::string, std::shared_ptr<Optimizer>> optimizer_of(const char* name, Set set) {
  auto o = std::make_shared<O>();
  set(*o);
  return {name, o};
}

/// Norms are those of whole parameters, and of all parameters.
TEST(ChannelParts, TrainWithEveryOptimizer) {
  KEELSON_NEED_RANKS(2);
  const auto alone = world().split(world().rank(), 0);
  const Graph g = network_of(channel_cases()[1]);
  for (const auto& [name, optimizer] :
       {optimizer_of<Adam>("adam", [](Adam& o) { o.epsilon = 1e-3f; }),
        optimizer_of<Sgd>("clip", [](Sgd& o) { o.momentum = 0.9f, o.clip_norm = 0.1f; }),
        optimizer_of<Sgd>("larc", [](Sgd& o) { o.momentum = 0.9f, o.larc.mode = ops::LarcMode::clip; }),
        optimizer_of<Lars>("lars", [](Lars&) {}), optimizer_of<Lamb>("lamb", [](Lamb& o) { o.epsilon = 1e-3f; })})
    for (const int channel : channel_extents())
      expect_alike(channel_steps(g, world(), channel, *optimizer, 2, 4),
                   channel_steps(g, *alone, 1, *optimizer, 2 * (world().size() / channel), 4),
                   fmt::format("{}, channel {}", name, channel));
}

/// With gradients by rows, and, where the optimizer has momentum, whole ones.
TEST(ChannelParts, TrainWordsAsOneRankDoes) {
  KEELSON_NEED_RANKS(2);
  const auto alone = world().split(world().rank(), 0);
  const Graph g = network_of_words();
  for (const float momentum : {0.0f, 0.9f})
    for (const int channel : channel_extents())
      for (const std::int64_t batch : {1, 3}) {
        Sgd sgd;
        sgd.momentum = momentum;
        sgd.clip_norm = 5;
        const auto what = fmt::format("momentum {}, channel {}, batch {}", momentum, channel, batch);
        const std::int64_t all = batch * (world().size() / channel);
        const auto whole = channel_steps(g, *alone, 1, sgd, all, 3),
                   parts = channel_steps(g, world(), channel, sgd, batch, 3);
        expect_alike(parts, whole, what);
        if (all == batch) expect_alike(parts.predictions, whole.predictions, 1e-4f, what + ", predictions");
      }
}

/// Without an output that reads them, no rank has all predictions.
TEST(ChannelParts, KeepPartsOfPredictions) {
  KEELSON_NEED_RANKS(2);
  const ProcessGrid grid(world(), {.channel = world().size()});
  Graph g;
  const Var x = embedding(g.input("x", {3}, DType::s32), {.entries = 23, .features = 16}, "embedding");
  loss(dense(x, 4000, "output"), g.input("y", {3}, DType::s32), {.kind = ops::LossKind::cross_entropy});
  const Sgd sgd;
  Parameters parameters(g, context(network_contexts().back()), 1);
  const Plan plan(g, parameters, {.batch = 100, .optimizer = &sgd, .grid = &grid});
  const std::size_t whole = std::size_t{300} * 4000 * sizeof(float);
  EXPECT_LT(plan.arena_bytes(), whole);
}

/// In fp16 the update begins with the norm of all gradients, in bf16 values are rounded.
TEST(ChannelParts, TrainIn16Bits) {
  KEELSON_NEED_RANKS(2);
  const auto alone = world().split(world().rank(), 0);
  const Sgd sgd;
  const Graph g = network_of(channel_cases()[1]);
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    const auto whole = channel_steps(g, *alone, 1, sgd, 2 * (world().size() / 2), 3, -1, precision);
    const auto parts = channel_steps(g, world(), 2, sgd, 2, 3, -1, precision);
    for (std::size_t s = 0; s < 3; ++s) EXPECT_NEAR(parts.losses[s], whole.losses[s], 0.02 * whole.losses[s]);
    expect_alike(parts.parameters, whole.parameters, 0.02f, "16 bits");
  }
}

TEST(ChannelParts, RefuseWhatTheyCannotDo) {
  KEELSON_NEED_RANKS(2);
  const ProcessGrid grid(world(), {.channel = 2});
  const Graph graph = network_of(channel_cases()[1]),
              narrow = network_of({"narrow", [](Var x) { return dense(x, 3); }, {2}});
  const Sgd sgd;
  const auto refused = [&](const Graph& g, auto change, const char* says) {
    Parameters parameters(g, context(network_contexts().back()), 1);
    PlanOptions options{.batch = 2, .optimizer = &sgd, .grid = &grid};
    change(options);
    try {
      const Plan plan(g, parameters, options);
      ADD_FAILURE() << says;
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
    }
  };
  refused(narrow, [](PlanOptions&) {}, "no layer has 4 channels");
  refused(graph, [](PlanOptions& o) { o.lag = true; }, "--sync lag");
  refused(graph, [](PlanOptions& o) { o.exchange.shards = OptimizerShards::moments; }, "--shard-optimizer");
  refused(graph, [](PlanOptions& o) { o.exchange.reproducible = true; }, "--reproducible");
  const Muon muon;
  refused(graph, [&](PlanOptions& o) { o.optimizer = &muon; }, "leave --channel-parallel out");
  if (world().size() < 4) return;
  const ProcessGrid both(world(), {.space = 2, .channel = 2});
  refused(graph, [&](PlanOptions& o) { o.grid = &both; }, "--spatial");
}

}  // namespace
}  // namespace keelson::testing
