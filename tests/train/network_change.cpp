#include <gtest/gtest.h>

#include <fstream>
#include <numeric>

#include "engine/data/hdf5/hdf5.hpp"
#include "engine/graph/channel_maps.hpp"
#include "engine/optim/adam.hpp"
#include "tests/support/contexts.hpp"
#include "tests/support/fake_async_context.hpp"
#include "tests/train/support.hpp"

/// Networks that lose and gain channels between two epochs.
namespace keelson::testing {
namespace {

using Widths = std::map<std::string, std::int64_t>;

/// As small_network(), of these widths, with statistics.
Graph network(const Widths& w) {
  Graph g;
  auto x = g.input("x", {2, 6, 6, 6});
  auto y = g.input("y", {2});
  auto h = max_pool(leaky_relu(batch_norm(conv(x, {.filters = w.at("conv1")}, "conv1"), {}, "norm1"), 0.3f), 2);
  h = dropout(leaky_relu(dense(flatten(h), w.at("dense1"), "dense1"), 0.3f), 0.25f, "drop1");
  auto p = dense(h, 2, "dense2");
  g.set_output("prediction", p);
  mse(p, y);
  return g;
}

const Widths first_widths{{"conv1", 6}, {"dense1", 8}};

/// The `count` channels of the node whose weights have the largest norm, in order; beyond all of them, new ones.
std::vector<std::int64_t> largest(const Parameters& parameters, const std::string& node, std::int64_t count) {
  const Parameter& p = *parameters.find(node + "/weights");
  const auto values = parameters.get(p);
  const auto row = values.size() / static_cast<std::size_t>(p.shape[0]);
  std::vector<double> squares(static_cast<std::size_t>(p.shape[0]));
  for (std::size_t i = 0; i < values.size(); ++i) squares[i / row] += double{values[i]} * values[i];
  std::vector<std::int64_t> order(squares.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](auto a, auto b) { return squares[a] > squares[b]; });
  order.resize(static_cast<std::size_t>(std::min<std::int64_t>(count, p.shape[0])));
  std::ranges::sort(order);
  order.resize(static_cast<std::size_t>(count), -1);
  return order;
}

/// conv1 and dense1 get these widths before an epoch.
std::optional<NetworkChange> resize(const RunState& state, const Parameters& parameters, std::int64_t conv1,
                                    std::int64_t dense1) {
  const Graph now = network(Topology::parse(state.topology).widths());
  return NetworkChange{network({{"conv1", conv1}, {"dense1", dense1}}),
                       channel_maps(now, {{"conv1", largest(parameters, "conv1", conv1)},
                                          {"dense1", largest(parameters, "dense1", dense1)}})};
}

/// Fewer channels in the second epoch, one unit more in the third.
TrainerOptions changing_options() {
  auto o = small_options();
  o.epochs = 3;
  o.transform = std::make_shared<Flip>();
  o.schedule.kind = Schedule::Kind::cosine;
  o.schedule.epochs = 3;
  o.change_network = [](const RunState& s, const Parameters& p) -> std::optional<NetworkChange> {
    if (s.epoch == 1) return resize(s, p, 4, 6);
    return resize(s, p, 4, 7);
  };
  return o;
}

struct ChangingTraining : Training {
  explicit ChangingTraining(TrainerOptions options, Context& where = context(network_contexts().back()))
      : Training(network(first_widths), std::move(options), where) {}
};

class ChangedResume : public ::testing::TestWithParam<int> {};

/// Five steps per epoch: within the first epoch, before and after a change, within the epochs behind both.
TEST_P(ChangedResume, ContinuesBitForBit) {
  auto adam = std::make_shared<Adam>();
  for (const std::shared_ptr<const Optimizer>& optimizer : {std::shared_ptr<const Optimizer>(adam), make_sgd(0.9f)}) {
    const Folder folder;
    auto o = changing_options();
    o.optimizer = optimizer;
    ChangingTraining whole(o);
    whole.go();
    EXPECT_EQ(whole.parameters.count(), 4 * 2 * 27 + 4 + 4 * 4 + 7 * 4 * 27 + 7 + 2 * 7 + 2);

    auto first = o;
    first.checkpoints.folder = folder.path();
    first.max_steps = GetParam();
    ChangingTraining a(first);
    a.go();
    ChangingTraining b(o);
    b.trainer.resume(find_checkpoint(folder.path(), false));
    const auto result = b.go();

    auto losses = a.recorder.losses;
    losses.insert(losses.end(), b.recorder.losses.begin(), b.recorder.losses.end());
    EXPECT_EQ(losses, whole.recorder.losses);
    auto metrics = a.recorder.metrics;
    metrics.insert(metrics.end(), b.recorder.metrics.begin(), b.recorder.metrics.end());
    EXPECT_EQ(metrics, whole.recorder.metrics);
    EXPECT_EQ(everything(b.parameters), everything(whole.parameters));
    EXPECT_EQ(result.state.topology, whole.trainer.state().topology);
  }
}

INSTANTIATE_TEST_SUITE_P(At, ChangedResume, ::testing::Values(3, 5, 6, 8, 10, 12),
                         [](const auto& i) { return "step" + std::to_string(i.param); });

/// Sees the parameters just before and just after a change.
struct Watcher final : TrainObserver {
  explicit Watcher(const Parameters& p) : parameters(p) {}
  void on_epoch(const RunState&, const EpochRecord&, const Evaluation*) override { before = read(); }
  void on_network_change(const RunState& s, const Graph& g, const std::string&) override {
    if (!after.empty()) return;
    after = read();
    kept = before;
    widths = Topology(g).widths();
    EXPECT_EQ(Topology(g).to_text(), s.topology);
    EXPECT_EQ(s.epoch, 1);
    EXPECT_EQ(s.step, 5);
  }
  std::vector<std::vector<float>> read() const {
    std::vector<std::vector<float>> all;
    for (int which : {-1, 0}) all.push_back(parameters.get(*parameters.find("conv1/weights"), which));
    return all;
  }
  const Parameters& parameters;
  std::vector<std::vector<float>> before, after, kept;
  Widths widths;
};

TEST(NetworkChange, KeepsValuesMomentsScheduleAndCounters) {
  const auto o = changing_options();
  ChangingTraining run(o);
  Watcher watcher(run.parameters);
  const auto result = run.trainer.run({&run.recorder, &watcher});
  EXPECT_EQ(watcher.widths, (Widths{{"conv1", 4}, {"dense1", 6}, {"dense2", 2}, {"norm1", 4}}));
  ASSERT_EQ(watcher.after.size(), 2u);
  for (std::size_t which : {0, 1}) {
    const auto &old = watcher.kept[which], &now = watcher.after[which];
    ASSERT_EQ(old.size(), 6u * 54);
    ASSERT_EQ(now.size(), 4u * 54);
    // Each filter that stays is one of before, in the same order.
    std::size_t at = 0;
    for (std::size_t f = 0; f < 4; ++f, ++at) {
      while (at < 6 && !std::equal(&now[f * 54], &now[f * 54] + 54, &old[at * 54])) ++at;
      EXPECT_LT(at, 6u) << "filter " << f << " of " << which;
    }
  }
  auto still = o;
  still.change_network = nullptr;
  ChangingTraining unchanged(still);
  unchanged.go();
  EXPECT_EQ(run.recorder.rates, unchanged.recorder.rates);
  EXPECT_EQ(result.state.step, 15);
  EXPECT_EQ(result.state.samples, unchanged.trainer.state().samples);
  EXPECT_TRUE(
      std::equal(run.recorder.losses.begin(), run.recorder.losses.begin() + 5, unchanged.recorder.losses.begin()));
  EXPECT_NE(run.recorder.losses[5], unchanged.recorder.losses[5]);
  EXPECT_GT(run.trainer.executor().rows()[0].milliseconds, 0) << "of the new plan";
}

/// The network of the best validation is the one that was validated.
TEST(NetworkChange, CheckpointsHoldTheNetworkOfTheirTime) {
  const Folder folder;
  auto o = changing_options();
  o.checkpoints.folder = folder.path();
  o.checkpoints.steps = 7;
  o.checkpoints.keep = 10;
  ChangingTraining run(o);
  run.go();
  std::map<std::int64_t, Widths> widths;
  for (const auto& path : CheckpointFolder(folder.path(), 10).list()) {
    const auto state = read_run_state(path);
    widths[state.step] = Topology::parse(state.topology).widths();
  }
  ASSERT_EQ(widths.size(), 5u);
  EXPECT_EQ(widths.at(5), (Widths{{"conv1", 6}, {"dense1", 8}, {"dense2", 2}, {"norm1", 6}}));
  EXPECT_EQ(widths.at(7), (Widths{{"conv1", 4}, {"dense1", 6}, {"dense2", 2}, {"norm1", 4}}));
  EXPECT_EQ(widths.at(10), widths.at(7));
  EXPECT_EQ(widths.at(14), (Widths{{"conv1", 4}, {"dense1", 7}, {"dense2", 2}, {"norm1", 4}}));
  EXPECT_EQ(widths.at(15), widths.at(14));
}

TEST(NetworkChange, ACallersLoopGivesTheBitsOfRun) {
  ChangingTraining whole(changing_options()), own(changing_options());
  whole.go();
  while (own.trainer.step())
    if (own.trainer.epoch_done()) own.trainer.end_epoch();
  EXPECT_EQ(everything(own.parameters), everything(whole.parameters));
}

TEST(NetworkChange, NothingChangesWhereTheHookGivesNothing) {
  auto o = changing_options();
  int asked = 0;
  o.change_network = [&](const RunState&, const Parameters&) { return ++asked, std::nullopt; };
  ChangingTraining a(o);
  a.go();
  o.change_network = nullptr;
  ChangingTraining b(o);
  b.go();
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(a.recorder.losses, b.recorder.losses);
  EXPECT_EQ(everything(a.parameters), everything(b.parameters));
}

TEST(NetworkChange, RefusesNetworksThatDoNotFit) {
  const Folder folder;
  auto o = changing_options();
  o.checkpoints.folder = folder.path();
  o.max_steps = 7;
  ChangingTraining(o).go();
  const auto resume_with = [&](auto make) {
    auto changed = changing_options();
    changed.make_network = make;
    return message_of<InputError>(
        [&] { ChangingTraining(changed).trainer.resume(find_checkpoint(folder.path(), false)); });
  };
  auto still = changing_options();
  still.change_network = nullptr;
  EXPECT_NE(message_of<InputError>([&] {
              ChangingTraining(still).trainer.resume(find_checkpoint(folder.path(), false));
            }).find("is a checkpoint of another network"),
            std::string::npos);
  const auto text = resume_with([](const Topology&) { return network(first_widths); });
  EXPECT_NE(text.find("the network that make_network made for this checkpoint is another one: node conv1 is "
                      R"({"name":"conv1","kind":"conv","srcs":["x"],"shape":[1,6,6,6,6],)"),
            std::string::npos)
      << text;

  auto unmapped = changing_options();
  unmapped.change_network = [](const RunState&, const Parameters&) {
    return NetworkChange{network({{"conv1", 4}, {"dense1", 8}}), {}};
  };
  EXPECT_NE(
      message_of<InputError>([&] { ChangingTraining(unmapped).go(); }).find("the parameter conv1/weights is 4x2x3x3x3"),
      std::string::npos);
}

/// The network of the checkpoint is another one, and would have to be made first.
TEST(NetworkChange, ADamagedCheckpointChangesNeitherNetworkNorParameters) {
  const Folder folder;
  auto o = changing_options();
  o.checkpoints.folder = folder.path();
  o.max_steps = 7;
  ChangingTraining(o).go();
  const auto path = find_checkpoint(folder.path(), false);
  auto bytes = content(path);
  const auto offset = hdf5::File::open(path.string()).info("/optimizer/momentum/dense2/weights").raw_offset;
  bytes[static_cast<std::size_t>(offset)] ^= 1;
  std::ofstream(path, std::ios::binary) << bytes;
  ChangingTraining run(o);
  const auto before = everything(run.parameters);
  const auto topology = run.trainer.state().topology;
  const auto text = message_of<InputError>([&] { run.trainer.resume(path); });
  EXPECT_NE(text.find("/optimizer/momentum/dense2/weights does not match its checksum"), text.npos) << text;
  EXPECT_EQ(everything(run.parameters), before);
  EXPECT_EQ(run.trainer.state().topology, topology);
}

/// Checkpoints of before have no topology.
TEST(NetworkChange, ACheckpointWithoutATopologyIsOfTheProgramsNetwork) {
  const Folder folder;
  auto o = changing_options();
  o.checkpoints.folder = folder.path();
  o.max_steps = 3;
  ChangingTraining a(o);
  auto state = a.go().state;
  state.topology.clear();
  write_checkpoint(folder / "old.h5", copy_run(state, a.parameters, moment_names(*o.optimizer)));
  EXPECT_TRUE(read_run_state(folder / "old.h5").topology.empty());
  ChangingTraining b(changing_options()), whole(changing_options());
  b.trainer.resume(folder / "old.h5");
  b.go();
  whole.go();
  EXPECT_EQ(everything(b.parameters), everything(whole.parameters));
}

/// Steps are still under way when an epoch ends; in fp16 the loss scale has moved.
TEST(NetworkChange, WaitsForADeviceThatTheHostRunsAheadOf) {
  for (const auto precision : {Precision::fp32, Precision::fp16}) {
    const Folder folder;
    auto o = changing_options();
    o.precision = precision;
    const auto fake = make_fake_async_context();
    ChangingTraining whole(o, *fake);
    whole.go();
    EXPECT_EQ(whole.recorder.losses.size(), 15u);
    auto first = o;
    first.checkpoints.folder = folder.path();
    first.max_steps = 8;
    ChangingTraining(first, *fake).go();
    ChangingTraining rest(o, *fake);
    rest.trainer.resume(find_checkpoint(folder.path(), false));
    rest.go();
    EXPECT_EQ(everything(rest.parameters), everything(whole.parameters));
  }
}

TEST(NetworkChange, GivesTheMemoryOfTheOldNetworkBack) {
  for (const auto& where : network_contexts()) {
    Device& device = context(where).device();
    auto o = changing_options();
    std::size_t before = 0, during = 0;
    o.epochs = 2;
    o.change_network = [&](const RunState& s, const Parameters& p) {
      before = device.memory().used;
      return resize(s, p, 1, 1);
    };
    ChangingTraining run(o, context(where));
    run.go();
    during = device.memory().used;
    if (before == 0) GTEST_SKIP() << "this device does not count its memory";
    EXPECT_LT(during, before) << where;
  }
}

}  // namespace
}  // namespace keelson::testing
