#include <gtest/gtest.h>

#include "apps/common/training_targets.hpp"
#include "engine/graph/channel_maps.hpp"
#include "engine/optim/adam.hpp"
#include "engine/optim/lamb.hpp"
#include "engine/optim/lars.hpp"
#include "engine/optim/muon.hpp"
#include "tests/mpi/world.hpp"
#include "tests/support/contexts.hpp"
#include "tests/train/support.hpp"

namespace keelson::testing {
namespace {

class TrainTest : public MpiTest {};

struct TrainedRun {
  std::vector<double> losses, metrics;
  std::vector<float> parameters;
  RunState state;
};

constexpr std::int64_t global_batch = 4;

/// 18 samples: the last step of an epoch has two, so at four ranks two of them have none. There is dropout, and a
/// transform of samples.
TrainedRun train(Communicator* c, TrainerOptions o, const std::filesystem::path& resume = {}) {
  const auto graph = small_network(0.25f);
  Parameters parameters(graph, context(network_contexts().back()), o.seed);
  const CubeDataset training(18), validation(7, 6, 99);
  o.batch = global_batch / (c ? c->size() : 1);
  o.transform = std::make_shared<Flip>();
  o.epochs = 3;
  Trainer trainer(graph, parameters, training, &validation, c, o);
  if (!resume.empty()) trainer.resume(resume);
  Recorder recorder;
  const auto result = trainer.run({&recorder});
  return {recorder.losses, recorder.metrics, everything(parameters), result.state};
}

void expect_close(const TrainedRun& got, const TrainedRun& want) {
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (std::size_t i = 0; i < want.losses.size(); ++i)
    EXPECT_NEAR(got.losses[i], want.losses[i], 1e-5 * want.losses[i]) << "step " << i + 1;
  ASSERT_EQ(got.metrics.size(), want.metrics.size());
  for (std::size_t i = 0; i < want.metrics.size(); ++i) EXPECT_NEAR(got.metrics[i], want.metrics[i], 1e-5);
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < want.parameters.size(); ++i) {
    difference += std::pow(got.parameters[i] - want.parameters[i], 2);
    norm += std::pow(want.parameters[i], 2);
  }
  EXPECT_LT(std::sqrt(difference / norm), 1e-5);
}

TEST_F(TrainTest, RanksWithAPartOfTheBatchDoAsOneWithAllOfIt) {
  auto lars = std::make_shared<Lars>();
  lars->eta = 0.1f;
  lars->clip_norm = 0.5f;
  const std::shared_ptr<const Optimizer> others[] = {nullptr, std::make_shared<Adam>(), lars, std::make_shared<Lamb>(),
                                                     std::make_shared<Muon>()};
  for (const auto& other : others) {
    auto o = small_options();
    if (other) o.optimizer = other, o.schedule.base = other == lars ? 0.02 : 1e-3;
    expect_close(train(&world(), o), train(nullptr, o));
  }
}

TEST_F(TrainTest, ABagIsTheSameOnAnyNumberOfRanks) {
  auto o = small_options();
  const auto plain = train(nullptr, o);
  o.bag = true;
  const auto want = train(nullptr, o);
  EXPECT_NE(want.losses, plain.losses);
  expect_close(train(&world(), o), want);
}

TEST_F(TrainTest, AllRanksHaveTheSameBits) {
  const auto t = train(&world(), small_options());
  auto first = t.parameters;
  world().broadcast(first.data(), first.size() * sizeof(float), 0);
  EXPECT_EQ(first, t.parameters);
  double metric = t.state.metric;
  world().broadcast(&metric, sizeof metric, 0);
  EXPECT_EQ(metric, t.state.metric);
}

/// The folder is made by rank 0 and known to all.
std::filesystem::path shared_folder(std::optional<Folder>& folder) {
  std::string path;
  if (world().rank() == 0) path = folder.emplace().path().string();
  return world().allgather(path)[0];
}

TEST_F(TrainTest, ContinuesBitForBitAndWithAnotherNumberOfRanks) {
  std::optional<Folder> folder;
  const auto path = shared_folder(folder);
  const auto whole = train(&world(), small_options());
  auto o = small_options();
  o.checkpoints.folder = path;
  o.max_steps = 7;  // in the second epoch
  train(&world(), o);
  world().barrier();
  const auto resumed = train(&world(), small_options(), find_checkpoint(path, false));
  EXPECT_EQ(resumed.parameters, whole.parameters);
  EXPECT_EQ(resumed.losses, std::vector<double>(whole.losses.begin() + 7, whole.losses.end()));
  auto rest = train(nullptr, small_options(), find_checkpoint(path, false));
  expect_close(rest, {resumed.losses, resumed.metrics, resumed.parameters, {}});
  EXPECT_EQ(rest.state.world_size, 1);
  world().barrier();
}

TEST_F(TrainTest, AllRanksKnowPerplexityAndTexts) {
  const auto graph = token_network();
  const TokenDataset training(18), validation(7);
  const auto perplexity = [&](Communicator* c, TrainerOptions o) {
    o.evaluation.metrics = {std::make_shared<Perplexity>()};
    o.evaluation.units = static_cast<double>(validation.counted());
    o.unit = {"word", 5};
    o.batch = global_batch / (c ? c->size() : 1);
    Parameters parameters(graph, context(network_contexts().back()), o.seed);
    return Trainer(graph, parameters, training, &validation, c, o).run().state.metric;
  };
  std::optional<Folder> folder;
  auto o = small_options();
  o.checkpoints.folder = shared_folder(folder);
  o.texts = {{"vocabulary", std::string("a\nb\0", 4)}, {"empty", ""}};
  const auto metric = perplexity(&world(), o);
  EXPECT_NEAR(metric, perplexity(nullptr, small_options()), 1e-4 * metric);
  world().barrier();
  Parameters parameters(graph, context(network_contexts().back()), 1);
  PlanOptions evaluation;
  evaluation.training = false;
  const Executor executor(graph, parameters, evaluation);
  const auto loaded = load_checkpoint(find_checkpoint(o.checkpoints.folder, false), "small", parameters, {}, &world());
  EXPECT_EQ(loaded.texts, o.texts);
  EXPECT_EQ(loaded.metric, metric);
  world().barrier();
}

TEST_F(TrainTest, ALoopOfTheCallersGivesTheBitsOfRun) {
  const auto graph = small_network(0.25f);
  const CubeDataset training(18), validation(7, 6, 99);
  const auto make = [&](Parameters& parameters) {
    auto o = small_options();
    o.batch = global_batch / size();
    return std::make_unique<Trainer>(graph, parameters, training, &validation, &world(), o);
  };
  Parameters first(graph, context(network_contexts().back()), 11),
      second(graph, context(network_contexts().back()), 11);
  const auto whole = make(first), own = make(second);
  const auto state = whole->run().state;
  while (own->step())
    if (own->epoch_done()) own->end_epoch();
  EXPECT_EQ(everything(second), everything(first));
  EXPECT_EQ(own->state().metric, state.metric);
}

/// Each rank sees its own targets; baseline and checkpoint have those of all.
TEST_F(TrainTest, TheBaselineIsThatOfAllRanks) {
  const auto graph = small_network(0.25f);
  const CubeDataset training(18), validation(7, 6, 99);
  std::optional<Folder> folder;
  const auto path = shared_folder(folder);
  const auto baseline = [&](Communicator* c, bool writes, int space = 1) {
    const app::TargetMetrics metrics(std::make_shared<MeanAbsoluteError>(), 0);
    auto o = small_options();
    o.replica.space = space;
    o.batch = global_batch * space / (c ? c->size() : 1);
    o.evaluation.metrics = metrics.all();
    if (writes) o.checkpoints.folder = path;
    Parameters parameters(graph, context(network_contexts().back()), o.seed);
    app::TrainingTargets targets(training, o, c, *metrics.baseline);
    Trainer(graph, parameters, training, &validation, c, o).run({&targets});
    return metrics.baseline->values();
  };
  const auto want = baseline(nullptr, false), got = baseline(&world(), true);
  for (std::size_t t = 0; t < 2; ++t) EXPECT_NEAR(got.at(t), want.at(t), 1e-12);
  if (size() > 1) {  // the ranks of a replica see the same targets
    const auto of_replicas = baseline(&world(), false, 2);
    for (std::size_t t = 0; t < 2; ++t) EXPECT_NEAR(of_replicas.at(t), want.at(t), 1e-12);
  }
  world().barrier();
  const auto stored = app::TrainingTargets::mean(read_run_state(find_checkpoint(path, false)));
  double expected = 0;
  for (std::int64_t i = 0; i < 18; ++i) {
    std::vector<float> x(2 * 216), y(2);
    void* dst[] = {x.data(), y.data()};
    training.read(i, dst);
    expected += y[0] / 18.0;
  }
  EXPECT_NEAR(stored.at(0), expected, 1e-9);
  world().barrier();
}

/// dense1 loses two of its eight units before the second epoch.
NetworkChange smaller(std::vector<std::int64_t> units) {
  return {small_network(0, static_cast<std::int64_t>(units.size())),
          channel_maps(small_network(0), {{"dense1", std::move(units)}})};
}

struct SmallerTraining {
  SmallerTraining(Communicator* c, TrainerOptions o)
      : graph(small_network(0)),
        parameters(graph, context(network_contexts().back()), o.seed),
        trainer(graph, parameters, training, &validation, c, std::move(o)) {}
  Graph graph;
  Parameters parameters;
  CubeDataset training{18}, validation{7, 6, 99};
  Trainer trainer;
};

TEST_F(TrainTest, AllRanksGoOnWithTheSameNetwork) {
  std::optional<Folder> folder;
  const auto path = shared_folder(folder);
  auto o = small_options();
  o.change_network = [](const RunState&, const Parameters&) { return smaller({0, 1, 2, 4, 5, 7}); };
  o.make_network = [](const Topology& t) { return small_network(0, t.widths().at("dense1")); };
  const auto run = [&](Communicator* c, TrainerOptions options, bool resumes) {
    options.batch = global_batch / (c ? c->size() : 1);
    SmallerTraining t(c, options);
    if (resumes) t.trainer.resume(find_checkpoint(path, false));
    Recorder recorder;
    const auto result = t.trainer.run({&recorder});
    return TrainedRun{recorder.losses, recorder.metrics, everything(t.parameters), result.state};
  };
  const auto whole = run(&world(), o, false);
  expect_close(whole, run(nullptr, o, false));
  EXPECT_EQ(Topology::parse(whole.state.topology).widths().at("dense1"), 6);
  auto first = o;
  first.checkpoints.folder = path;
  first.max_steps = 7;
  run(&world(), first, false);
  world().barrier();
  EXPECT_EQ(run(&world(), o, true).parameters, whole.parameters);
  world().barrier();
}

TEST_F(TrainTest, RanksThatWouldGoOnWithOtherNetworksAreRefused) {
  KEELSON_NEED_RANKS(2);
  const auto refusal = [&](auto change) {
    auto o = small_options();
    o.batch = global_batch / size();
    o.change_network = change;
    SmallerTraining t(&world(), o);
    return message_of<InputError>([&] { t.trainer.run(); });
  };
  const bool last = rank() == size() - 1;
  auto text = refusal([&](const RunState&, const Parameters&) {
    return last ? smaller({0, 1, 2, 3, 4}) : smaller({0, 1, 2, 3, 4, 5});
  });
  EXPECT_NE(text.find("the ranks have different networks to go on with: node dense1 is "), std::string::npos) << text;
  text = refusal([&](const RunState&, const Parameters&) {
    return last ? smaller({0, 1, 2, 3, 4, 6}) : smaller({0, 1, 2, 3, 4, 5});
  });
  EXPECT_NE(text.find("the map of dense1/bias is [0 1 2 3 4 6] on rank"), std::string::npos) << text;
  text = refusal([&](const RunState&, const Parameters&) -> std::optional<NetworkChange> {
    if (last) return std::nullopt;
    return smaller({0, 1, 2, 3, 4, 5});
  });
  EXPECT_NE(text.find("the network is as it was on rank"), std::string::npos) << text;
  text = refusal([&](const RunState&, const Parameters&) -> std::optional<NetworkChange> {
    if (last) refuse("this rank has no idea");
    return std::nullopt;
  });
  EXPECT_NE(text.find("this rank has no idea"), std::string::npos) << text;
}

TEST_F(TrainTest, OneRanksWishStopsAllAfterTheSameStep) {
  auto o = small_options();
  int asked = 0;
  o.interrupted = [&] { return ++asked == 3 && rank() == size() - 1; };
  const auto t = train(&world(), o);
  EXPECT_EQ(t.state.step, 3);
}

TEST_F(TrainTest, ALossThatIsNotFiniteStopsAllRanksNamingOne) {
  const auto graph = small_network(0);
  Parameters parameters(graph, context(network_contexts().back()), 1);
  CubeDataset training(16);
  training.poisoned = 7;  // of the second batch, its last
  auto o = small_options();
  o.shuffle = false;
  o.batch = global_batch / size();
  Trainer trainer(graph, parameters, training, nullptr, &world(), o);
  const auto text = message_of<Error>([&] { trainer.run(); });
  EXPECT_NE(text.find("in step 2 (epoch 1)"), std::string::npos) << text;
  EXPECT_NE(text.find(fmt::format("on rank {}", size() - 1)), std::string::npos) << text;
  for (const auto& other : world().allgather(text)) EXPECT_EQ(other, text);
}

}  // namespace
}  // namespace keelson::testing
