#include "engine/plan/channel_layers.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/execute/executor.hpp"
#include "engine/layers/layers.hpp"
#include "engine/optim/adam.hpp"
#include "engine/optim/lamb.hpp"
#include "engine/optim/lars.hpp"
#include "engine/optim/sgd.hpp"
#include "engine/train/checkpoint/checkpoint.hpp"
#include "tests/mpi/space_steps.hpp"
#include "tests/mpi/trained.hpp"
#include "tests/mpi/world.hpp"
#include "tests/support/environment_variable.hpp"

/// Deep layers that the ranks along space compute by channels: they train as one rank does with whole layers.
namespace keelson::testing {
namespace {

struct DeepCase {
  std::string name;
  std::function<Var(Var)> layers;  ///< from the input to a value without spatial dimensions
  Shape sample;
  std::vector<std::string> by_channels;
};

/// c1 is computed by rows, c2 by its 309 filters, a number that no number of ranks divides.
Var conv_and_pool(Var x) {
  x = max_pool(leaky_relu(conv(x, {.filters = 8}, "c1"), 0.1f), 2);
  return max_pool(leaky_relu(conv(x, {.filters = 309}, "c2"), 0.1f), 2);
}

std::vector<DeepCase> deep_cases() {
  return {
      {"volumes",
       [](Var x) {
         x = flatten(conv_and_pool(x), ElementOrder::channels_last);
         return dropout(leaky_relu(dense(x, 32, "d1"), 0.1f), 0.2f, "drop");
       },
       {2, 8, 8, 8},
       {"c2", "d1"}},
      {"batch normalization",
       [](Var x) {
         x = relu(batch_norm(conv(x, {.filters = 16, .bias = false}, "c1"), {}, "bn1"));
         x = relu(batch_norm(conv(max_pool(x, 2), {.filters = 512, .bias = false}, "c2"), {}, "bn2"));
         x = average_pool(conv(x, {.filters = 512, .groups = 512}, "depthwise"), 2);
         return flatten(global_average_pool(x));
       },
       {2, 12, 8},
       {"c2"}},
      {"several readers",
       [](Var x) {
         const Var a = relu(conv(x, {.filters = 16, .stride = 2}, "c1"));
         const Var b = conv(a, {.filters = 470}, "c2"), c = average_pool(b, {.size = 3, .stride = 1, .padding = 1});
         return dense(flatten(concat({add({b, c}), a})), 14, "d1");
       },
       {2, 9, 4},
       {"c2", "d1"}},
  };
}

Graph network_of(const DeepCase& c) { return network_with_head(c.layers, c.sample); }

PlanOptions with(const Optimizer& optimizer) { return {.optimizer = &optimizer}; }

class ChannelLayersTest : public MpiTest {};

TEST_F(ChannelLayersTest, TrainAsOneRankDoes) {
  KEELSON_NEED_RANKS(2);
  const auto alone = world().split(rank(), 0);
  Sgd sgd;
  sgd.momentum = 0.9f;
  for (const DeepCase& c : deep_cases()) {
    const Graph g = network_of(c);
    for (const int space : spaces()) {
      EXPECT_EQ(channel_layers(g, space), c.by_channels) << c.name;
      for (const std::int64_t batch : {1, 3}) {
        const auto what = fmt::format("{}, space {}, batch {}", c.name, space, batch);
        const auto got = run_steps(g, world(), space, batch, 3, with(sgd), 0.02f),
                   want = run_steps(g, *alone, 1, batch * (size() / space), 3, with(sgd), 0.02f);
        expect_same_steps(got, want, what);
        if (size() == space) expect_near(got.predictions, want.predictions, 1e-4, what + ": predictions");
      }
    }
    expect_near(predict(g, world(), size()), predict(g, *alone, 1), 1e-4, c.name + ": inference");
    const EnvironmentVariable checked("KEELSON_CHECK", "1");
    run_steps(g, world(), size(), 2, 1, with(sgd));
  }
}

/// Parts along depth and height before, channels over all ranks behind.
TEST_F(ChannelLayersTest, TrainBehindBlocks) {
  KEELSON_NEED_RANKS(4);
  const auto alone = world().split(rank(), 0);
  const Sgd sgd;
  DeepCase c = deep_cases()[0];
  c.layers = [](Var x) { return flatten(conv_and_pool(x)); };
  const Graph g = network_of(c);
  for (const std::int64_t batch : {1, 3})
    expect_same_steps(run_steps(g, world(), 4, batch, 2, with(sgd), 0.05f, 2),
                      run_steps(g, *alone, 1, batch, 2, with(sgd)), "blocks");
  expect_near(predict(g, world(), 4, 2), predict(g, *alone, 1), 1e-4, "inference");
}

/// Norms are those of whole parameters, and of all parameters.
TEST_F(ChannelLayersTest, TrainWithEveryOptimizer) {
  KEELSON_NEED_RANKS(2);
  const auto alone = world().split(rank(), 0);
  const Graph g = network_of(deep_cases()[0]);
  Adam adam;
  adam.epsilon = 1e-3f;
  Sgd clip, larc;
  clip.momentum = larc.momentum = 0.9f;
  clip.clip_norm = 0.1f;
  larc.larc.mode = ops::LarcMode::clip;
  const Lars lars;
  Lamb lamb;
  lamb.epsilon = 1e-3f;
  for (const auto& [name, optimizer] : std::vector<std::pair<std::string, const Optimizer*>>{
           {"adam", &adam}, {"clip", &clip}, {"larc", &larc}, {"lars", &lars}, {"lamb", &lamb}})
    for (const int space : spaces())
      expect_same_steps(run_steps(g, world(), space, 2, 3, with(*optimizer)),
                        run_steps(g, *alone, 1, 2 * (size() / space), 3, with(*optimizer)),
                        fmt::format("{}, space {}", name, space));
}

/// In fp16 the update begins with the norm of all gradients.
TEST_F(ChannelLayersTest, TrainIn16Bits) {
  KEELSON_NEED_RANKS(2);
  const auto alone = world().split(rank(), 0);
  const Graph g = network_of(deep_cases()[0]);
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    const PlanOptions low{.precision = precision};
    const auto got = run_steps(g, world(), size(), 2, 2, low), want = run_steps(g, *alone, 1, 2, 2, low);
    for (std::size_t s = 0; s < 2; ++s) EXPECT_NEAR(got.losses[s], want.losses[s], 0.02 * want.losses[s]);
    expect_near(got.parameters, want.parameters, 0.02, "parameters");
  }
}

/// Shards of the optimizer, and PlanOptions::whole_parameters: each rank has all parameters, and computes the same.
TEST_F(ChannelLayersTest, StayWholeWhereRanksKeepWholeParameters) {
  KEELSON_NEED_RANKS(2);
  const auto alone = world().split(rank(), 0);
  const Graph g = network_of(deep_cases()[0]);
  const auto want = run_steps(g, *alone, 1, 2, 2);
  PlanOptions whole{.whole_parameters = true};
  expect_same_steps(run_steps(g, world(), size(), 2, 2, whole), want, "whole parameters");
  const ProcessGrid grid(world(), {.space = size()});
  for (const bool shards : {false, true}) {
    Sgd sgd;
    sgd.momentum = 0.9f;
    PlanOptions options{.optimizer = &sgd, .grid = &grid};
    if (shards) options.exchange.shards = OptimizerShards::moments;
    Parameters parameters(g, context(network_contexts().back()), 1);
    const Plan plan(g, parameters, options);
    EXPECT_EQ(parameters.at("c2/weights").part.has_value(), !shards);
    EXPECT_EQ(parameters.at("c1/weights").part, std::nullopt) << "computed by rows";
    EXPECT_EQ(parameters.at("head/weights").part, std::nullopt) << "too few parameters";
  }
}

/// A training and its validations share the parameters. Checkpoints have whole arrays, for any grid.
TEST_F(ChannelLayersTest, TrainingsContinueOnAnyGrid) {
  KEELSON_NEED_RANKS(2);
  DeepCase c = deep_cases()[0];
  c.sample = {2, 6, 6, 6};
  Graph g;
  const Var prediction = dense(c.layers(g.input("x", c.sample)), 2, "head");
  g.set_output("prediction", prediction);
  mse(prediction, g.input("y", {2}));
  std::optional<Folder> folder;
  std::string name;
  if (rank() == 0) name = folder.emplace().path().string();
  const std::string shared = world().allgather(name)[0];
  const auto alone = world().split(rank(), 0);
  struct Grid {
    Communicator* ranks;
    int space, columns = 1;
  };
  const Grid whole{alone.get(), 1};
  const auto run = [&](const Grid& grid, std::int64_t steps, const std::string& into,
                       const std::filesystem::path& resume) {
    auto o = small_options();
    o.replica.space = grid.space;
    o.replica.columns = grid.columns;
    o.optimizer = make_sgd(0.9f);
    o.schedule.base = 2e-3;
    o.epochs = 2;
    o.max_steps = steps;
    o.micro_batches = grid.space == 2 ? 2 : 1;
    if (!into.empty()) o.checkpoints.folder = into;
    auto trained = train_cubes(g, grid.ranks, 4, o, resume);
    world().barrier();
    return trained;
  };
  const auto loaded = [&](const std::string& from) {
    Parameters parameters(g, context(network_contexts().back()), 9);
    load_checkpoint(find_checkpoint(from, false), "", parameters, std::vector<std::string>{"momentum"}, nullptr);
    return everything(parameters);
  };
  const auto own = shared + "/alone" + std::to_string(rank());
  const auto want = run(whole, -1, own, {});
  std::vector<Grid> grids{whole, {&world(), 2}};
  if (size() == 4) grids.insert(grids.end(), {{&world(), 4}, {&world(), 4, 2}});
  for (std::size_t i = 0; i < grids.size(); ++i) {
    const Grid &first = grids[i], &then = grids[(i + 1) % grids.size()];
    const auto each = [&](const Grid& grid, const char* what) {  // ranks that train alone write folders of their own
      return fmt::format("{}/{} {}{}", shared, what, i, grid.space == 1 ? " " + std::to_string(rank()) : "");
    };
    run(first, 3, each(first, "first"), {});
    const auto got = run(then, -1, each(then, "then"), find_checkpoint(each(first, "first"), false));
    const auto what = fmt::format("space {} to space {}", first.space, then.space);
    ASSERT_LE(got.losses.size(), want.losses.size());
    for (std::size_t k = 1; k <= got.losses.size(); ++k)
      EXPECT_NEAR(got.losses[got.losses.size() - k], want.losses[want.losses.size() - k], 2e-4) << what;
    ASSERT_EQ(got.validation_losses.size(), want.validation_losses.size()) << what;
    for (std::size_t k = 0; k < want.validation_losses.size(); ++k)
      EXPECT_NEAR(got.validation_losses[k], want.validation_losses[k], 2e-4) << what;
    expect_near(loaded(each(then, "then")), loaded(own), 2e-3, what);
  }
  world().barrier();  // rank 0 removes the folder
}

}  // namespace
}  // namespace keelson::testing
